/** A dry run of `download` reports the call's result, and changes nothing. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import {
  type DownloadPlan,
  type DownloadResult,
  runDownload,
} from '../../../src/remote/download/run-download.js';
import { download, safeOpen, saveCheckpoint } from '../../support/api.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { nightly } from '../../support/nightly.js';
import {
  excludedOf,
  expectSameAsPlanned,
  layouts,
  models,
  newPath,
  newTarget,
  olds,
  selections,
  stateOf,
} from '../../support/plans.js';
import { SHARDED, SINGLE, settingsOf, useHub } from './downloads.js';
import { FileServer } from './file-server.js';

const fast = { durable: false, overwrite: true };
const dry = { dryRun: true } as const;

let server: FileServer;
beforeAll(async () => {
  server = await FileServer.start();
});
afterAll(() => server.close());

const VARIANTS = {
  'model.safetensors': fileBytes([{ name: 'a', dtype: 'U8', shape: [1] }]),
  'model.fp16.safetensors': fileBytes([{ name: 'half', dtype: 'U8', shape: [2] }]),
};
const hub = useHub({
  'org/sharded': { files: SHARDED },
  'org/one': { files: SINGLE },
  'org/variants': { files: {}, revisions: { v1: VARIANTS } },
});

it('variant and revision choose what is downloaded', async () => {
  const options = { variant: 'fp16', revision: 'v1', ...fast };
  const target = temporaryPath('variant');
  const { files } = await runDownload('hf://org/variants', target, options, settingsOf(hub()));
  expect(files.map(({ name }) => name)).toEqual(['model.fp16.safetensors']);
  expect(safeOpen(target, { variant: 'fp16' }).keys()).toEqual(['half']);
});

describe('a dry run', () => {
  it('says what is downloaded, whole or chosen', async () => {
    let run = 0;
    const size = fc.constantFrom(undefined, 1, 20, 50, Number.POSITIVE_INFINITY);
    await fc.assert(
      fc.asyncProperty(
        models,
        layouts,
        selections,
        size,
        olds,
        async (model, layout, selection, maxShardSize, old) => {
          const source = newPath('source');
          const metadata = { note: 'kept', 'b.bias': 'b.weight' };
          const { path, index } = await saveCheckpoint(source, model, {
            ...layout,
            durable: false,
            metadata,
          });
          const below = `${run++}`;
          for (const name of readdirSync(source)) {
            const bytes = readFileSync(join(source, name));
            server.files.set(`${below}/${name}`, { bytes, tag: `"${below}"` });
          }
          const url = server.url(`${below}${path.slice(source.length)}`);
          const isFile = index === null && maxShardSize === undefined;
          const target = isFile ? newPath('file.safetensors') : newTarget(old);
          const options = { ...selection, maxShardSize };
          await expectSameAsPlanned(
            target,
            () => download(url, target, { ...options, ...fast, ...dry }),
            () => download(url, target, { ...options, ...fast }),
            excludedOf(model, selection),
          );
        },
      ),
      { numRuns: nightly(40, 12) },
    );
  });

  it.each(['org/sharded', 'org/one', 'org/one/model.safetensors'])(
    'of %s tells the files beside it, and the commit',
    async (id) => {
      const target = temporaryPath(id.endsWith('.safetensors') ? 'a.safetensors' : 'target');
      const options = { ...fast, firstDelayMs: 1 };
      for (const selection of [{}, { names: (name: string) => name === 'embed' }]) {
        const from = `hf://${id}`;
        const choices = { ...options, ...selection };
        const settings = settingsOf(hub());
        await expectSameAsPlanned(
          target,
          () => runDownload(from, target, { ...choices, dryRun: true }, settings),
          () => runDownload(from, target, choices, settings),
        );
      }
    },
  );

  it('into the cache of the Hub makes no cache', async () => {
    const cache = temporaryPath('cache');
    vi.stubEnv('HF_HUB_CACHE', cache);
    const call = (dryRun: boolean): Promise<DownloadResult | DownloadPlan> => {
      const options = { ...fast, firstDelayMs: 1, dryRun };
      return runDownload('hf://org/sharded', 'cache', options, settingsOf(hub()));
    };
    const plan = await call(true);
    expect(existsSync(cache)).toBe(false);
    const files = plan.files.map(({ name, path, byteLength }) => ({ name, path, byteLength }));
    const { commit, path, byteLength } = plan;
    expect(await call(false)).toMatchObject({ files, commit, path, byteLength, deleted: [] });
    vi.unstubAllEnvs();
  });

  it('fetches headers alone, and leaves a target that is missing', async () => {
    const bytes = fileBytes([{ name: 'a', dtype: 'U8', shape: [9_000_000] }]);
    server.files.set('large.safetensors', { bytes, tag: '"large"' });
    server.files.set('text', { bytes: new Uint8Array(1000).fill(0x20), tag: '"text"' });
    const target = temporaryPath('missing');
    for (const options of [{}, { dtype: 'F16' }, { maxShardSize: 1 }] as const) {
      const before = server.sentByteLength;
      const plan = await download(server.url('large.safetensors'), target, { ...options, ...dry });
      expect(plan.files[0]?.tensors).toEqual(['a']);
      expect(server.sentByteLength - before).toBeLessThan(300_000);
      expect(existsSync(target)).toBe(false);
    }
    const { files } = await download(server.url('text'), temporaryPath('text'), dry);
    expect(files).toMatchObject([{ name: 'text', byteLength: 1000, tensors: null }]);
  });

  it('of a file in a missing folder is possible, and the download makes the folder', async () => {
    server.files.set('small.safetensors', { bytes: fileBytes([]), tag: '"small"' });
    const path = join(temporaryPath('missing'), 'inner', 'a.safetensors');
    const source = server.url('small.safetensors');
    await download(source, path, dry);
    expect(existsSync(dirname(path))).toBe(false);
    await download(source, path, fast);
    expect(existsSync(path)).toBe(true);
  });

  it('refuses what the download refuses: a folder that is a file', async () => {
    server.files.set('small.safetensors', { bytes: fileBytes([]), tag: '"small"' });
    const file = temporaryPath('file');
    writeFileSync(file, '');
    for (const options of [dry, fast as unknown as typeof dry]) {
      for (const target of [file, join(file, 'a.safetensors')]) {
        const call = download(server.url('small.safetensors'), target, options);
        await expect(call).rejects.toMatchObject({ code: 'EEXIST', path: file });
      }
      const below = download(server.url('small.safetensors'), join(file, 'a'), options);
      await expect(below).rejects.toMatchObject({ code: 'ENOTDIR' });
    }
  });

  it('of what is there already is the same', async () => {
    const target = newPath('target');
    const settings = settingsOf(hub());
    const call = (dryRun: boolean): Promise<unknown> =>
      runDownload('hf://org/sharded', target, { ...fast, firstDelayMs: 1, dryRun }, settings);
    await call(false);
    const before = stateOf(target);
    expect(await call(true)).toMatchObject({ deleted: [], index: 'model.safetensors.index.json' });
    expect(stateOf(target)).toEqual(before);
    const bad = { dryRun: 1 } as unknown as typeof dry;
    await expect(download('http://127.0.0.1', target, bad)).rejects.toThrow('dryRun must be');
  });
});
