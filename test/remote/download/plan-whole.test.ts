import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { DEFAULT_HUB_SETTINGS } from '../../../src/file/hub/settings.js';
import { findModel, type PlaceOf } from '../../../src/remote/download/model-files.js';
import { planWhole } from '../../../src/remote/download/plan-whole.js';
import { runDownload } from '../../../src/remote/download/run-download.js';
import type { SourceFile, SourceFiles } from '../../../src/remote/download/source-files.js';
import { requireModel } from '../../../src/remote/found-file.js';
import { whenAborted } from '../../../src/work/abort-listeners.js';
import { download } from '../../support/api.js';
import { breakingFetch, emptyFolder, namesIn, startedNoise } from './downloads.js';
import { FileServer } from './file-server.js';

const GOOD = startedNoise(9_000_000);

let server: FileServer;
beforeAll(async () => {
  server = await FileServer.start();
});
afterAll(() => server.close());

let folder = '';
beforeEach(() => {
  folder = emptyFolder('target');
});

function serve(name: string, bytes: Uint8Array | string, tag = '"one"'): string {
  server.files.set(name, { bytes: Buffer.from(bytes), tag });
  return server.url(name);
}

function copy(source: string, name: string, given?: typeof fetch): Promise<unknown> {
  const options = { durable: false, firstDelayMs: 1, overwrite: true, fetch: given };
  return runDownload(source, join(folder, name), options, DEFAULT_HUB_SETTINGS);
}

describe('what comes in place of a safetensors file', () => {
  const padded = (text: string): Uint8Array => Buffer.from(text.padEnd(300_000));
  const length = (value: number): string => `${String.fromCharCode(value)}${'\0'.repeat(7)}`;

  it.each([
    ['a page', '<!doctype html><title>Log in</title>', 'html'],
    ['a long page', padded('<!doctype html><title>Log in</title>'), 'html'],
    ['an error', '{"error":"no token"}', 'json'],
    ['a pointer', 'version https://git-lfs.github.com/spec/v1\noid', 'git-lfs-pointer'],
    ['a word', 'no', undefined],
    ['nothing', '', undefined],
    ['a file that was cut off', `${length(100)}{"a":`, undefined],
    ['a header that is no object', `${length(2)}[]`, undefined],
    ['a header without bytes', length(0), undefined],
  ])('leaves the old file and the part of an earlier try alone: %s', async (_, body, format) => {
    const source = serve('model.safetensors', GOOD);
    const name = 'f.safetensors';
    await expect(copy(source, name, breakingFetch(6_000_000))).rejects.toThrow();
    writeFileSync(join(folder, name), 'old');
    const before = namesIn(folder);
    expect(before).toHaveLength(2);
    serve('model.safetensors', body, '"two"');
    const failed: unknown = await copy(source, name).catch((error: unknown) => error);
    expect(failed).toMatchObject({
      code: expect.stringMatching(/^SAFETENSORS_/),
      ...(format === undefined ? {} : { foundFormat: format }),
    });
    expect([namesIn(folder), readFileSync(join(folder, name), 'utf8')]).toEqual([before, 'old']);
    // The file is back, and so are its received bytes.
    serve('model.safetensors', GOOD);
    const { reusedBytes } = Object(await copy(source, name));
    expect(reusedBytes).toBeGreaterThan(1_000_000);
    expect(readFileSync(join(folder, name)).equals(GOOD)).toBe(true);
  });

  it('is told by the name of the target, too', async () => {
    const source = serve('get?id=1', '{"error":"no token"}');
    await expect(copy(source, 'f.safetensors')).rejects.toMatchObject({ foundFormat: 'json' });
    await copy(source, 'f');
    expect(namesIn(join(folder, 'f'))).toEqual(expect.arrayContaining(['get']));
  });

  it('is told for the shards of an index', async () => {
    const shard = 'model-00001-of-00001.safetensors';
    const index = { metadata: {}, weight_map: { a: shard } };
    const source = serve('model.safetensors.index.json', JSON.stringify(index));
    serve(shard, '{"error":"no token"}');
    await expect(copy(source, 'model')).rejects.toMatchObject({ foundFormat: 'json' });
  });
});

describe('what comes in place of an index', () => {
  it.each([
    ['<!doctype html><title>Log in</title>', 'html'],
    ['[{"error":"no token"}]', 'json'],
  ])('is refused: %s', async (body, foundFormat) => {
    const source = serve('model.safetensors.index.json', body);
    const failed = { code: 'SAFETENSORS_INVALID_INDEX', foundFormat };
    await expect(copy(source, 'model')).rejects.toMatchObject(failed);
  });
});

it('takes no empty text for what contents are known by', async () => {
  const call = download(serve('a.bin', 'a'), join(folder, 'a.bin'), { versionId: '' });
  await expect(call).rejects.toMatchObject({ code: 'ERR_OUT_OF_RANGE' });
});

it('ends the questions under way when a shard is missing, and waits for their ends', async () => {
  const name = 'model.safetensors.index.json';
  const shards = Array.from({ length: 40 }, (_, i) => [`${i}`, `${i}.safetensors`]);
  const bytes = Buffer.from(
    JSON.stringify({ metadata: {}, weight_map: Object.fromEntries(shards) }),
  );
  const index = { readStart: async () => ({ bytes, fileByteLength: bytes.length }) };
  let [begun, ended] = [0, 0];
  const find: SourceFiles['find'] = async (wanted, signal) => {
    if (wanted === name) return { name, file: index, hash: null } as unknown as SourceFile;
    begun++;
    if (wanted === '3.safetensors') throw new Error('missing');
    await new Promise<void>((resolve) => void whenAborted(signal, resolve));
    await new Promise((resolve) => setTimeout(resolve, 5));
    ended++;
    throw signal.reason;
  };
  const listAll = async (): Promise<null> => null;
  const source = { path: name, name, variant: undefined, entries: null, hub: null, listAll, find };
  const placeOf: PlaceOf = (file) => file.name;
  const { signal } = new AbortController();
  const model = requireModel(await findModel(source, placeOf, signal));
  const plan = planWhole(source, model, placeOf, signal);
  await expect(plan).rejects.toThrow('missing');
  expect(begun).toBeLessThan(40);
  expect(ended).toBe(begun - 1);
});
