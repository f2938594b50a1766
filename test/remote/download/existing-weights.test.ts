/** Downloads to places that hold weights already: of the same repository, of another one, and of no record. */
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  utimesSync,
  writeFileSync,
} from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import type { DownloadPlan } from '../../../src/remote/download/run-download.js';
import { call, printed } from '../../cli/call.js';
import { loadFile } from '../../support/api.js';
import { useHub as useHubOfEnvironment } from '../../support/hub-environment.js';
import type { Files } from '../../support/hub-server.js';
import { writeBelow } from '../../support/make-checkpoint.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import { breakingFetch, downloadFrom, emptyFolder, noise, useHub } from './downloads.js';
import { FileServer } from './file-server.js';

const SINGLE = 'model.safetensors';
const INDEX = 'model.safetensors.index.json';
const SHARDS = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors'] as const;

function weights(name: string, length = 4): Uint8Array {
  return fileBytes([{ name, dtype: 'U8', shape: [length], bytes: noise(length) }]);
}

const LARGE = weights('large', 10_000_000);
const SHARDED: Files = {
  [SHARDS[0]]: weights('a'),
  [SHARDS[1]]: weights('b'),
  [INDEX]: JSON.stringify({ metadata: {}, weight_map: { a: SHARDS[0], b: SHARDS[1] } }),
  'config.json': '{"v":2}',
};

const hub = useHub({
  'org/one': {
    files: { [SINGLE]: weights('first'), 'config.json': '{"v":1}' },
    revisions: {
      sharded: SHARDED,
      large: { [SINGLE]: LARGE },
      folders: { [SINGLE]: weights('first'), [`sub/${SINGLE}`]: weights('of-sub', 6) },
    },
  },
  'org/two': { files: { [SINGLE]: weights('second', 5), 'config.json': '{"v":3}' } },
  'org/pipe': {
    files: { 'model_index.json': '{"unet":["diffusers","X"]}', 'unet/config.json': '{}' },
  },
});

const EXISTS = { code: 'SAFETENSORS_TARGET_EXISTS' };

function keys(path: string): string[] {
  return [...loadFile(path).keys()].sort();
}

/** All files below a folder with their bytes. */
function contentsOf(folder: string): Record<string, string> {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true });
  const paths = entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
  return Object.fromEntries(paths.map((path) => [path, readFileSync(path, 'latin1')]));
}

/** Expects a stop that lists these files, changes nothing and fetches no weights. */
async function expectStop(
  source: string,
  target: string,
  folder: string,
  listed: readonly string[],
): Promise<void> {
  const before = contentsOf(folder);
  const count = hub().requests.length;
  const stopped = await downloadFrom(hub(), source, target).then(
    () => expect.unreachable('no stop'),
    (error: Error) => error,
  );
  expect(stopped).toMatchObject(EXISTS);
  for (const text of listed) expect(stopped.message).toContain(text);
  expect(contentsOf(folder)).toEqual(before);
  const requests = hub().requests.slice(count);
  expect(requests.filter(({ server }) => server === 'network')).toEqual([]);
}

describe('a folder', () => {
  it('that is empty, or holds other files only, needs nothing', async () => {
    const folder = emptyFolder('folder');
    writeBelow(folder, 'notes.txt', 'mine');
    writeBelow(folder, 'other.safetensors', weights('other'));
    writeBelow(folder, 'config.json', 'mine');
    const { replaced } = await downloadFrom(hub(), 'hf://org/one', folder);
    expect(replaced).toEqual([{ name: 'config.json', byteLength: 4 }]);
    expect(readFileSync(join(folder, 'other.safetensors'))).toEqual(Buffer.from(weights('other')));
    expect(readFileSync(join(folder, 'notes.txt'), 'utf8')).toBe('mine');
  });

  it('with weights of the same repository takes its other revisions', async () => {
    const folder = temporaryPath('folder');
    await downloadFrom(hub(), 'hf://org/one', folder);
    const sharded = await downloadFrom(hub(), 'hf://org/one@sharded', folder);
    expect(sharded.replaced).toEqual([
      { name: 'config.json', byteLength: 7 },
      { name: SINGLE, byteLength: weights('first').length },
    ]);
    expect([sharded.deleted, keys(folder)]).toEqual([[SINGLE], ['a', 'b']]);
    const single = await downloadFrom(hub(), 'hf://org/one', folder);
    expect(single.replaced.map(({ name }) => name)).toEqual(['config.json', ...SHARDS, INDEX]);
    expect([single.deleted.toSorted(), keys(folder)]).toEqual([[...SHARDS, INDEX], ['first']]);
  });

  it('with weights of another folder of the same repository stops', async () => {
    const folder = temporaryPath('folder');
    const listed = (length: number): string[] => [`"${SINGLE}" (${length} B)`];
    await downloadFrom(hub(), 'hf://org/one@folders', folder);
    const { length } = weights('first');
    await expectStop('hf://org/one@folders/sub', folder, folder, listed(length));
    await expectStop(`hf://org/one@folders/sub/${SINGLE}`, folder, folder, listed(length));
    const other = temporaryPath('other');
    await downloadFrom(hub(), 'hf://org/one@folders/sub', other);
    await expectStop('hf://org/one', other, other, listed(weights('of-sub', 6).length));
    // Its own folder goes on replacing it.
    const path = join(other, SINGLE);
    expect((await downloadFrom(hub(), 'hf://org/one@folders/sub', other)).replaced).toEqual([]);
    expect(readFileSync(path)).toEqual(Buffer.from(weights('of-sub', 6)));
  });

  it.each(['another repository', 'no repository', 'the same repository, but changed since'])(
    'with weights of %s stays as it is',
    async (kind) => {
      const folder = emptyFolder('folder');
      if (kind === 'no repository') writeBelow(folder, SINGLE, weights('mine', 6));
      else if (kind === 'another repository') await downloadFrom(hub(), 'hf://org/two', folder);
      else {
        await downloadFrom(hub(), 'hf://org/one', folder);
        writeBelow(folder, SINGLE, weights('tuned', 7));
      }
      const { length } = readFileSync(join(folder, SINGLE));
      for (const source of ['hf://org/one@large', 'hf://org/one@sharded']) {
        await expectStop(source, folder, folder, [`"${SINGLE}" (${length} B)`, 'overwrite: true']);
        const plan = (await downloadFrom(hub(), source, folder, {
          dryRun: true,
        } as never)) as unknown as DownloadPlan;
        expect(plan.replaced).toContainEqual({ name: SINGLE, byteLength: length });
        expect(plan.needsOverwrite).toBe(true);
      }
      const { replaced } = await downloadFrom(hub(), 'hf://org/one@sharded', folder, {
        overwrite: true,
      });
      expect(replaced).toContainEqual({ name: SINGLE, byteLength: length });
      expect(keys(folder)).toEqual(['a', 'b']);
      // Now they are of this repository.
      await downloadFrom(hub(), 'hf://org/one', folder);
      expect(keys(folder)).toEqual(['first']);
    },
  );

  it('is completed without a stop after a broken download', async () => {
    const folder = temporaryPath('folder');
    const source = 'hf://org/one@large';
    const fetch = breakingFetch(9_000_000);
    await expect(downloadFrom(hub(), source, folder, { fetch })).rejects.toThrow('cut');
    const { reusedBytes, replaced } = await downloadFrom(hub(), source, folder);
    expect([reusedBytes > 0, replaced]).toEqual([true, []]);
    expect(keys(folder)).toEqual(['large']);
    expect((await downloadFrom(hub(), source, folder)).downloadedBytes).toBe(0);
  });

  it('with weights of another repository stops again after a broken download', async () => {
    const folder = temporaryPath('folder');
    await downloadFrom(hub(), 'hf://org/two', folder);
    const source = 'hf://org/one@large';
    const options = { fetch: breakingFetch(9_000_000), overwrite: true };
    await expect(downloadFrom(hub(), source, folder, options)).rejects.toThrow('cut');
    await expect(downloadFrom(hub(), source, folder)).rejects.toMatchObject(EXISTS);
    const { reusedBytes } = await downloadFrom(hub(), source, folder, { overwrite: true });
    expect([reusedBytes > 0, keys(folder)]).toEqual([true, ['large']]);
  });

  it.each([
    ['of the same commit', () => hub().commit('org/one'), true],
    ['of another commit of the repository', () => hub().commit('org/one', 'sharded'), true],
    ['of another repository', () => hub().commit('org/two'), false],
    ['that is damaged', () => 'garbage', true],
  ])('of hf download --local-dir, with a record %s', async (_, commit, isRecorded) => {
    const folder = emptyFolder('folder');
    writeBelow(folder, SINGLE, weights('old', 6));
    const record = `.cache/huggingface/download/${SINGLE}.metadata`;
    writeBelow(folder, record, `${commit()}\netag\n${Date.now() / 1000 + 1}\n`);
    if (!isRecorded) return await expectStop('hf://org/one', folder, folder, [SINGLE]);
    await downloadFrom(hub(), 'hf://org/one', folder);
    expect(keys(folder)).toEqual(['first']);
  });

  it.each([
    ['sound', () => `${hub().commit('org/one')}\netag\n1700000000.0\n`],
    ['damaged', () => '\0garbage'],
  ])(
    'of hf download --local-dir whose file was changed since stays, with a %s record',
    async (_, text) => {
      const folder = emptyFolder('folder');
      writeBelow(folder, SINGLE, weights('old', 6));
      const record = `.cache/huggingface/download/${SINGLE}.metadata`;
      writeBelow(folder, record, text());
      utimesSync(join(folder, record), 1_700_000_000, 1_700_000_000);
      utimesSync(join(folder, SINGLE), 1_700_000_100, 1_700_000_100);
      await expectStop('hf://org/one', folder, folder, [SINGLE]);
    },
  );
});

describe('a file', () => {
  it('of one repository in a folder is replaced by its next version, not by another file', async () => {
    const folder = emptyFolder('folder');
    const source = `hf://org/one/${SINGLE}`;
    await downloadFrom(hub(), source, folder);
    const next = await downloadFrom(hub(), `hf://org/one@large/${SINGLE}`, folder);
    expect(next.replaced).toEqual([{ name: SINGLE, byteLength: weights('first').length }]);
    await expectStop(`hf://org/two/${SINGLE}`, folder, folder, [SINGLE]);
    await downloadFrom(hub(), `hf://org/two/${SINGLE}`, folder, { overwrite: true });
    await expectStop(source, folder, folder, [SINGLE]);
  });

  it('at a path is replaced on request only', async () => {
    const folder = emptyFolder('folder');
    const path = join(folder, 'x.safetensors');
    for (const source of ['hf://org/one', 'hf://org/two', `hf://org/one/${SINGLE}`]) {
      const options = { overwrite: source !== 'hf://org/one' };
      const { replaced } = await downloadFrom(hub(), source, path, options);
      expect(replaced.length).toBe(source === 'hf://org/one' ? 0 : 1);
      // What is there already is not replaced.
      expect((await downloadFrom(hub(), source, path)).replaced).toEqual([]);
      const other = source === 'hf://org/two' ? 'hf://org/one' : 'hf://org/two';
      await expectStop(other, path, folder, ['"x.safetensors"']);
    }
    expect(readdirSync(folder)).toEqual(['x.safetensors']);
  });

  it('of any server is replaced on request only', async () => {
    const server = await FileServer.start();
    try {
      const path = join(emptyFolder('folder'), 'x.safetensors');
      const serve = (bytes: Uint8Array, tag: string): unknown =>
        server.files.set('m.safetensors', { bytes, tag });
      serve(weights('a'), '"1"');
      const source = server.url('m.safetensors');
      await downloadFrom(hub(), source, path);
      serve(weights('b', 9), '"2"');
      await expect(downloadFrom(hub(), source, path)).rejects.toMatchObject(EXISTS);
      expect(keys(path)).toEqual(['a']);
      await downloadFrom(hub(), source, path, { overwrite: true });
      expect(keys(path)).toEqual(['b']);
    } finally {
      await server.close();
    }
  });
});

describe('weights that appear during a download', () => {
  it.each(['folder', 'x.safetensors', 'cast'])(
    'stay, unless overwrite is true: %s',
    async (kind) => {
      const target = join(emptyFolder('target'), kind);
      const path = kind === 'x.safetensors' ? target : join(target, SINGLE);
      const mine = weights('mine', 6);
      const downloading = (overwrite: boolean): Promise<unknown> => {
        let isThere = false;
        return downloadFrom(hub(), 'hf://org/one@large', target, {
          ...{ overwrite, ...(kind === 'cast' ? { rename: { large: 'renamed' } } : {}) },
          onProgress: ({ bytes }) => {
            if (isThere || bytes < 1_000_000) return;
            isThere = true;
            writeBelow(dirname(path), basename(path), mine);
          },
        });
      };
      await expect(downloading(false)).rejects.toMatchObject(EXISTS);
      expect(readFileSync(path)).toEqual(Buffer.from(mine));
      await downloading(true);
      expect(keys(path)).toEqual([kind === 'cast' ? 'renamed' : 'large']);
    },
  );

  it.each(['folder', 'cast'])('stay where they replace recorded ones: %s', async (kind) => {
    const folder = temporaryPath('folder');
    const options = kind === 'cast' ? { rename: { large: 'renamed' } } : {};
    await downloadFrom(hub(), 'hf://org/one', folder);
    const tuned = weights('tuned', 6);
    let isThere = false;
    const downloading = downloadFrom(hub(), 'hf://org/one@large', folder, {
      ...options,
      onProgress: ({ bytes }) => {
        if (isThere || bytes < 1_000_000) return;
        isThere = true;
        writeBelow(folder, 'tuned.tmp', tuned);
        renameSync(join(folder, 'tuned.tmp'), join(folder, SINGLE));
      },
    });
    await expect(downloading).rejects.toMatchObject(EXISTS);
    expect(readFileSync(join(folder, SINGLE))).toEqual(Buffer.from(tuned));
  });
});

describe('a file of any server that differs in length from its header', () => {
  const whole = weights('a', 80);
  const other = weights('b');
  // Longer than the first bytes that are requested of a file.
  const long = fileBytes([
    { name: 'a', dtype: 'U8', shape: [80] },
    ...Array.from({ length: 3000 }, (_, i) => {
      return { name: `empty.${i}`, dtype: 'F32', shape: [0] } as const;
    }),
  ]);
  it.each([
    ['shorter', whole.subarray(0, -4), 'found 76: the file is incomplete'],
    ['longer', new Uint8Array([...whole, 0]), 'found 81'],
    ['shorter, with a long header', long.subarray(0, -4), 'found 76: the file is incomplete'],
    ['longer, with a long header', new Uint8Array([...long, 0]), 'found 81'],
  ])('is not saved when it is %s', async (_, bytes, message) => {
    const server = await FileServer.start();
    try {
      const index = JSON.stringify({ metadata: {}, weight_map: { b: SHARDS[0], a: SHARDS[1] } });
      server.files.set('cut.safetensors', { bytes, tag: '"1"' });
      server.files.set(SHARDS[0], { bytes: other, tag: '"1"' });
      server.files.set(SHARDS[1], { bytes, tag: '"1"' });
      server.files.set(INDEX, { bytes: Buffer.from(index), tag: '"1"' });
      for (const [source, cut] of [
        ['cut.safetensors', 'cut.safetensors'],
        [INDEX, SHARDS[1]],
      ] as const) {
        const folder = emptyFolder('folder');
        const expected = {
          code: 'SAFETENSORS_METADATA_INCOMPLETE_BUFFER',
          path: server.url(cut),
          message: expect.stringContaining(
            `expected 80 bytes of tensor data after the header, ${message}`,
          ),
        };
        await expect(downloadFrom(hub(), server.url(source), folder)).rejects.toMatchObject(
          expected,
        );
        // The other shard stays for the next attempt.
        const partial = readdirSync(folder).filter((name) => name.endsWith('.incomplete'));
        for (const name of partial)
          expect(readFileSync(join(folder, name)).equals(other)).toBe(true);
        expect(
          readdirSync(folder).filter((name) => !name.startsWith('.safetensors-mmap-')),
        ).toEqual([]);
      }
    } finally {
      await server.close();
    }
  });
});

describe('a repository at a path that ends in .safetensors', () => {
  it.each([
    ['one file, with its bytes', 'hf://org/one', {}, ['first']],
    ['shards, joined', 'hf://org/one@sharded', {}, ['a', 'b']],
    ['an index', `hf://org/one@sharded/${INDEX}`, {}, ['a', 'b']],
    ['chosen tensors', 'hf://org/one@sharded', { names: ['b'] }, ['b']],
  ] as const)('is one file: %s', async (_, source, options, expected) => {
    const folder = emptyFolder('folder');
    const path = join(folder, 'x.safetensors');
    const plan = (await downloadFrom(hub(), source, path, {
      ...options,
      dryRun: true,
    } as never)) as unknown as DownloadPlan;
    expect(readdirSync(folder)).toEqual([]);
    const done = await downloadFrom(hub(), source, path, options);
    expect([done.path, plan.path, done.byteLength]).toEqual([path, path, plan.byteLength]);
    // New files have no hash on the Hub: a record has theirs.
    const names = readdirSync(folder).filter((name) => !name.endsWith('.downloaded'));
    expect([names, keys(path)]).toEqual([['x.safetensors'], expected]);
    expect(plan.files.map(({ tensors }) => tensors?.toSorted())).toEqual([expected]);
    expect((await downloadFrom(hub(), source, path, options)).downloadedBytes).toBe(0);
    if (source === 'hf://org/one') {
      expect(readFileSync(path)).toEqual(Buffer.from(weights('first')));
    }
  });

  it.each([
    ['of a pipeline', 'hf://org/pipe', {}, { code: 'SAFETENSORS_DIFFUSERS_PIPELINE' }],
    ['with chosen files', 'hf://org/one', { files: ['*.json'] }, { code: 'ERR_OUT_OF_RANGE' }],
    ['with shards', 'hf://org/one', { maxShardSize: '1GB' }, { code: 'ERR_OUT_OF_RANGE' }],
    [
      'with a shard size',
      `hf://org/one/${SINGLE}`,
      { maxShardSize: 9 },
      { code: 'ERR_OUT_OF_RANGE' },
    ],
  ])('is rejected %s', async (_, source, options, error) => {
    const folder = emptyFolder('folder');
    const path = join(folder, 'x.safetensors');
    await expect(downloadFrom(hub(), source, path, options)).rejects.toMatchObject(error);
    expect(readdirSync(folder)).toEqual([]);
  });

  it('is a folder where one of that name exists', async () => {
    const folder = join(emptyFolder('folder'), 'x.safetensors');
    mkdirSync(folder);
    await downloadFrom(hub(), 'hf://org/one', folder);
    expect(keys(folder)).toEqual(['first']);
  });
});

describe('on the command line', () => {
  const NEEDED = 'warning: the target already holds weights; pass --force to replace them';

  afterEach(() => vi.unstubAllEnvs());

  it.each(['file', 'folder'])(
    'convert of an address asks for --force in a preview: %s',
    async (kind) => {
      useHubOfEnvironment(hub().url);
      const target = temporaryPath(kind === 'file' ? 'x.safetensors' : 'folder');
      await printed(['convert', 'hf://org/one', target]);
      for (const command of kind === 'file' ? ['convert', 'download'] : ['convert']) {
        const args = [
          command,
          'hf://org/two',
          target,
          ...(command === 'convert' ? ['--dtype', 'F32'] : []),
        ];
        expect((await call(args)).stderr).toContain('pass --force to replace them');
        expect((await printed([...args, '--dry-run'])).trimEnd().split('\n').at(-1)).toBe(NEEDED);
        expect(JSON.parse(await printed([...args, '--dry-run', '--json'])).needsForce).toBe(true);
        const forced = JSON.parse(await printed([...args, '--dry-run', '--force', '--json']));
        expect(forced).not.toHaveProperty('needsForce');
      }
    },
  );

  it('lists the files with their sizes, and replaces them with --force', async () => {
    useHubOfEnvironment(hub().url);
    const folder = temporaryPath('folder');
    await printed(['download', 'hf://org/one@sharded', folder]);
    const args = ['download', 'hf://org/two', folder];
    const stopped = await call(args);
    expect(stopped.code).toBe(1);
    for (const name of [...SHARDS, INDEX]) expect(stopped.stderr).toContain(`"${name}" (`);
    expect(stopped.stderr).toContain('pass --force to replace them');
    expect(keys(folder)).toEqual(['a', 'b']);
    const plan = JSON.parse(await printed([...args, '--dry-run', '--json']));
    expect(plan.needsForce).toBe(true);
    const preview = await printed([...args, '--dry-run']);
    expect(preview).toContain('would delete');
    expect(preview.trimEnd().split('\n').at(-1)).toBe(NEEDED);
    expect(await printed([...args, '--dry-run', '--force'])).not.toContain(NEEDED);
    // Weights of the same repository are replaced without it.
    const next = ['download', 'hf://org/one', folder, '--dry-run'];
    expect(await printed(next)).toMatch(/^would replace/m);
    expect(await printed(next)).not.toContain(NEEDED);
    expect(keys(folder)).toEqual(['a', 'b']);
    const done = JSON.parse(await printed([...args, '--force', '--json']));
    expect(done.replaced).toEqual(plan.replaced);
    const names = done.replaced.map(({ name }: { name: string }) => name);
    expect(names).toEqual(['config.json', ...SHARDS, INDEX]);
    expect(keys(folder)).toEqual(['second']);
    writeFileSync(join(folder, SINGLE), weights('tuned'));
    const text = await printed([...args, '--force']);
    expect(text).toContain(`replaced: ${SINGLE} (`);
  });
});
