import { execFileSync } from 'node:child_process';
import {
  linkSync,
  lstatSync,
  mkdirSync,
  readFileSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { TemporaryNames } from '../../../src/platform/io/temporary-names.js';
import { ReplacementRecord } from '../../../src/write/checkpoint/replacement-record.js';
import { safeOpen } from '../../support/api.js';
import { fileBytes, temporaryPath } from '../../support/make-file.js';
import {
  breakingFetch,
  downloadFrom,
  emptyFolder,
  LARGE_BYTE_LENGTH,
  namesIn,
  SHARDED,
  SINGLE,
  startedNoise,
  useHub,
} from './downloads.js';
import { FileServer } from './file-server.js';

const SHARD = fileBytes([
  { name: 'embed', dtype: 'U8', shape: [4] },
  { name: 'norm', dtype: 'U8', shape: [4] },
]);

const hub = useHub({
  'org/long': {
    files: {
      'model.safetensors': SHARD,
      'config.json': '{}',
      [`${'n'.repeat(250)}.json`]: '{}',
      [`${'n'.repeat(251)}.json`]: '{}',
      [`${'\u6a21'.repeat(100)}.json`]: '{}',
    },
  },
  'org/long-shard': {
    files: {
      [`${'n'.repeat(300)}.safetensors`]: SHARD,
      'model.safetensors.index.json': JSON.stringify({
        weight_map: { embed: `${'n'.repeat(300)}.safetensors` },
      }),
    },
  },
  'org/deep': {
    files: {
      'c/d/weights.safetensors': SHARD,
      'a/weights.safetensors': SHARD,
      'model.safetensors.index.json': JSON.stringify({
        weight_map: { embed: 'a/weights.safetensors', norm: 'c/d/weights.safetensors' },
      }),
    },
  },
  'org/sharded': { files: SHARDED },
  'org/single': { files: SINGLE },
  'org/folders': {
    files: {
      'a/weights.safetensors': SHARD,
      'b/weights.safetensors': SHARD,
      'model.safetensors.index.json': JSON.stringify({
        weight_map: { embed: 'a/weights.safetensors', norm: 'b/weights.safetensors' },
      }),
    },
  },
});

const NAMES = [
  'config.json',
  'model-00001-of-00002.safetensors',
  'model-00002-of-00002.safetensors',
  'model.safetensors.index.json',
  'tokenizer.json',
];

it('copies weights, index and the files beside them, byte for byte', async () => {
  const folder = temporaryPath('model');
  const { commit, files, byteLength, downloadedBytes, reusedBytes, ...rest } = await downloadFrom(
    hub(),
    'hf://org/sharded',
    folder,
  );
  expect(namesIn(folder)).toEqual(NAMES);
  for (const name of NAMES) {
    expect(
      readFileSync(join(folder, name)).equals(Buffer.from(SHARDED[name] as string)),
      name,
    ).toBe(true);
  }
  const nothing = {
    deleted: [],
    failedDeletions: [],
    replaced: [],
    repaired: [],
    skipped: [],
    configMismatches: [],
  };
  const casts = { cast: [], dequantized: [], notCast: [], overflowed: new Map(), excluded: [] };
  const several = { conflicts: [], duplicates: [] };
  const model = { path: folder, index: 'model.safetensors.index.json', totalSize: null };
  expect(rest).toEqual({ ...model, ...nothing, ...casts, ...several });
  expect(files.map(({ name }) => name).toSorted()).toEqual(NAMES);
  expect(commit).toBe(hub().commit('org/sharded'));
  const index = Buffer.byteLength(SHARDED['model.safetensors.index.json'] as string);
  expect([downloadedBytes, reusedBytes]).toEqual([byteLength - index, 0]);
  using checkpoint = safeOpen(folder);
  expect(checkpoint.keys()).toEqual(['embed', 'norm']);
});

it('fetches nothing of a model that is there, but the list', async () => {
  const folder = temporaryPath('model');
  await downloadFrom(hub(), 'hf://org/sharded', folder);
  hub().requests.length = 0;
  const { downloadedBytes, reusedBytes } = await downloadFrom(hub(), 'hf://org/sharded', folder);
  expect([downloadedBytes, reusedBytes > LARGE_BYTE_LENGTH]).toEqual([0, true]);
  expect(hub().requests.map(({ path }) => path.split('/')[5])).toEqual(['revision', 'tree']);
});

it('goes on where a connection broke', async () => {
  const folder = temporaryPath('model');
  const cut = downloadFrom(hub(), 'hf://org/sharded', folder, { fetch: breakingFetch(9_000_000) });
  await expect(cut).rejects.toMatchObject({ code: 'SAFETENSORS_REMOTE_UNAVAILABLE' });
  expect(namesIn(folder).every((name) => name.endsWith('.incomplete'))).toBe(true);
  hub().requests.length = 0;
  const { downloadedBytes, reusedBytes } = await downloadFrom(hub(), 'hf://org/sharded', folder);
  expect(reusedBytes).toBeGreaterThan(3_000_000);
  expect(downloadedBytes).toBeLessThan(LARGE_BYTE_LENGTH - 3_000_000 + 1000);
  expect(namesIn(folder)).toEqual(NAMES);
  const [name = ''] = NAMES.slice(1);
  expect(readFileSync(join(folder, name)).equals(Buffer.from(SHARDED[name] as Uint8Array))).toBe(
    true,
  );
});

it('takes the place of a checkpoint of other files, and leaves the other files alone', async () => {
  const folder = emptyFolder('model');
  writeFileSync(join(folder, 'notes.txt'), 'mine');
  await downloadFrom(hub(), 'hf://org/sharded', folder);
  const replacing = { overwrite: true };
  const { deleted } = await downloadFrom(hub(), 'hf://org/single', folder, replacing);
  expect(deleted.toSorted()).toEqual(NAMES.slice(1, 4));
  expect(namesIn(folder)).toEqual([
    'config.json',
    'model.safetensors',
    'notes.txt',
    'tokenizer.json',
  ]);
  await downloadFrom(hub(), 'hf://org/sharded', folder, replacing);
  expect(namesIn(folder)).toEqual([...NAMES.slice(0, 4), 'notes.txt', 'tokenizer.json'].toSorted());
});

it('takes an index of any server with its shards, and knows by their ETags what is there', async () => {
  const server = await FileServer.start();
  try {
    const names = NAMES.filter((name) => name.startsWith('model'));
    for (const name of names) {
      const bytes = Buffer.from(SHARDED[name] as string);
      server.files.set(name, { bytes, tag: `"${name}"` });
    }
    const folder = temporaryPath('model');
    const source = server.url('model.safetensors.index.json?signature=secret');
    const { commit, files } = await downloadFrom(hub(), source, folder);
    expect([commit, files.map(({ name }) => name)]).toEqual([null, names]);
    using checkpoint = safeOpen(folder);
    expect((await checkpoint.verify()).problems).toEqual([]);
    server.sentByteLength = 0;
    const { downloadedBytes } = await downloadFrom(hub(), source, folder);
    expect(downloadedBytes).toBe(0);
    // The index, and the first bytes of every file.
    expect(server.sentByteLength).toBeLessThan(1000);
    const other = startedNoise(1000);
    server.files.set(names[1] ?? '', { bytes: other, tag: '"other"' });
    await downloadFrom(hub(), source, folder, { overwrite: true });
    expect(readFileSync(join(folder, names[1] ?? '')).equals(other)).toBe(true);
  } finally {
    await server.close();
  }
});

it('deletes what a killed download left of an earlier checkpoint', async () => {
  const folder = emptyFolder('model');
  await downloadFrom(hub(), 'hf://org/sharded', folder);
  const stale = 'model-00003-of-00003.safetensors';
  writeFileSync(join(folder, stale), 'of the earlier one');
  const record = new ReplacementRecord();
  record.add(stale, join(folder, stale));
  const { record: name } = new TemporaryNames('model{suffix}.safetensors');
  const options = { durable: false };
  await record.write(join(folder, name), join(folder, `${name}.tmp`), options);
  const { deleted, replaced, downloadedBytes } = await downloadFrom(
    ...([hub(), 'hf://org/sharded', folder] as const),
  );
  expect([deleted, replaced, downloadedBytes]).toEqual([[stale], [], 0]);
  expect(namesIn(folder)).toEqual(NAMES);
});

it('leaves a shard that no index names', async () => {
  const folder = emptyFolder('model');
  await downloadFrom(hub(), 'hf://org/sharded', folder);
  const stale = 'model-00003-of-00003.safetensors';
  writeFileSync(join(folder, stale), 'of the earlier one');
  const { deleted, downloadedBytes } = await downloadFrom(hub(), 'hf://org/sharded', folder);
  expect([deleted, downloadedBytes]).toEqual([[], 0]);
  expect(namesIn(folder)).toEqual([...NAMES, stale].sort());
});

it('takes shards of one name and the same contents in two folders', async () => {
  const folder = temporaryPath('model');
  await downloadFrom(hub(), 'hf://org/folders', folder);
  using checkpoint = safeOpen(folder);
  expect(checkpoint.keys()).toEqual(['embed', 'norm']);
});

it('asks a server about up to 16 shards at a time', async () => {
  const server = await FileServer.start();
  try {
    const shards = Array.from({ length: 40 }, (_, i) => `${i}.safetensors`);
    const weightMap = Object.fromEntries(shards.map((shard) => [shard, shard]));
    const index = Buffer.from(JSON.stringify({ weight_map: weightMap }));
    for (const name of shards) {
      const bytes = fileBytes([{ name, dtype: 'U8', shape: [4] }]);
      server.files.set(name, { bytes, tag: '"1"' });
    }
    server.files.set('model.safetensors.index.json', { bytes: index, tag: '"1"' });
    let underWay = 0;
    let most = 0;
    const counting: typeof fetch = async (input, init) => {
      most = Math.max(most, ++underWay);
      await sleep(5);
      return await fetch(input, init).finally(() => underWay--);
    };
    const folder = temporaryPath('model');
    const source = server.url('model.safetensors.index.json');
    await downloadFrom(hub(), source, folder, { fetch: counting });
    expect(most).toBe(16);
    using checkpoint = safeOpen(folder);
    expect(checkpoint.keys()).toHaveLength(40);
  } finally {
    await server.close();
  }
});

it('takes a file that the list repeats once', async () => {
  const repeating: typeof fetch = async (input, init) => {
    const response = await fetch(input, init);
    if (!String(input).includes('/tree/')) return response;
    const list = (await response.json()) as unknown[];
    return new Response(JSON.stringify([...list, ...list]));
  };
  const folder = temporaryPath('model');
  const { files } = await downloadFrom(hub(), 'hf://org/sharded', folder, { fetch: repeating });
  expect(files.map(({ name }) => name).toSorted()).toEqual(NAMES);
  expect(namesIn(folder)).toEqual(NAMES);
});

it.each(['hub', 'server'])(
  'lets one of its files be downloaded at the same time, from a %s',
  async (from) => {
    const server = await FileServer.start();
    try {
      const shard = SHARDED['model-00001-of-00002.safetensors'] as Uint8Array;
      const weightMap = { embed: 'model.safetensors' };
      server.files.set('model.safetensors', { bytes: shard, tag: '"1"' });
      const index = Buffer.from(JSON.stringify({ weight_map: weightMap }));
      server.files.set('model.safetensors.index.json', { bytes: index, tag: '"1"' });
      const [whole, part] =
        from === 'hub'
          ? ['hf://org/single', 'hf://org/single/model.safetensors']
          : [server.url('model.safetensors.index.json'), server.url('model.safetensors')];
      for (const delay of [0, 5, 20, 40]) {
        const folder = emptyFolder('model');
        const path = join(folder, 'model.safetensors');
        const both = [
          downloadFrom(hub(), whole, folder),
          sleep(delay).then(() => downloadFrom(hub(), part, path)),
        ];
        await Promise.all(both);
        expect(readFileSync(path).length).toBeGreaterThan(LARGE_BYTE_LENGTH);
        expect(namesIn(folder).filter((name) => name.endsWith('.incomplete'))).toEqual([]);
        using checkpoint = safeOpen(folder);
        expect(checkpoint.keys()).toEqual(['embed']);
      }
    } finally {
      await server.close();
    }
  },
);

it.skipIf(process.platform === 'win32')('skips files whose names are too long here', async () => {
  const long = [`${'n'.repeat(251)}.json`, `${'\u6a21'.repeat(100)}.json`];
  const names = ['config.json', 'model.safetensors', `${'n'.repeat(250)}.json`];
  for (const options of [{}, { dtype: 'F32' }, { maxShardSize: '1GB' }] as const) {
    const folder = temporaryPath('model');
    const { skipped } = await downloadFrom(hub(), 'hf://org/long', folder, options);
    expect(skipped.toSorted()).toEqual(long);
    expect(namesIn(folder).filter((name) => !name.startsWith('.'))).toEqual(names);
  }
  const refused = downloadFrom(hub(), 'hf://org/long-shard', temporaryPath('model'));
  await expect(refused).rejects.toMatchObject({ code: 'SAFETENSORS_UNSAFE_SHARD_NAME' });
});

describe('links in the target', () => {
  it.each(['a', 'c', 'c/d'])('are refused in place of the folder %s', async (link) => {
    const outside = emptyFolder('outside');
    mkdirSync(join(outside, 'd'));
    const folder = emptyFolder('model');
    if (link.includes('/')) mkdirSync(join(folder, 'c'));
    symlinkSync(outside, join(folder, link));
    await expect(downloadFrom(hub(), 'hf://org/deep', folder)).rejects.toMatchObject({
      code: 'SAFETENSORS_UNSAFE_SHARD_NAME',
      path: folder,
      message: expect.stringContaining(JSON.stringify(link)),
    });
    expect([namesIn(outside), namesIn(join(outside, 'd'))]).toEqual([['d'], []]);
    expect(namesIn(folder)).toEqual([link[0]]);
  });

  it('are refused when they appear while files are received', async () => {
    const outside = emptyFolder('outside');
    const folder = temporaryPath('model');
    const swapping: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      const isMade = lstatSync(join(folder, 'a'), { throwIfNoEntry: false })?.isDirectory();
      if (isMade === true) {
        renameSync(join(folder, 'a'), join(folder, 'old'));
        symlinkSync(outside, join(folder, 'a'));
      }
      return response;
    };
    const result = downloadFrom(hub(), 'hf://org/folders', folder, { fetch: swapping });
    await expect(result).rejects.toMatchObject({ code: 'SAFETENSORS_UNSAFE_SHARD_NAME' });
    expect(namesIn(outside)).toEqual([]);
  });

  it.each(['model.safetensors', 'config.json'])('are replaced in place of %s', async (name) => {
    const outside = emptyFolder('outside');
    const folder = emptyFolder('model');
    // One with the right contents, too.
    for (const bytes of ['mine', SINGLE[name] as string]) {
      writeFileSync(join(outside, name), bytes);
      execFileSync('ln', ['-sfn', join(outside, name), join(folder, name)]);
      await downloadFrom(hub(), 'hf://org/single', folder, { overwrite: true });
      expect(lstatSync(join(folder, name)).isFile()).toBe(true);
      expect(readFileSync(join(outside, name)).equals(Buffer.from(bytes))).toBe(true);
    }
  });

  it('are replaced in place of the index, and of one that leads nowhere', async () => {
    const outside = emptyFolder('outside');
    const folder = temporaryPath('model');
    await downloadFrom(hub(), 'hf://org/sharded', folder);
    const name = 'model.safetensors.index.json';
    renameSync(join(folder, name), join(outside, name));
    symlinkSync(join(outside, name), join(folder, name));
    await downloadFrom(hub(), 'hf://org/sharded', folder);
    expect(lstatSync(join(folder, name)).isFile()).toBe(true);
    const other = emptyFolder('other');
    symlinkSync(join(outside, 'nothing'), join(other, 'config.json'));
    await downloadFrom(hub(), 'hf://org/sharded', other);
    expect([lstatSync(join(other, 'config.json')).isFile(), namesIn(outside)]).toEqual([
      true,
      [name],
    ]);
  });

  it('are removed where a partial file would be, with every other name of a file', async () => {
    const folder = temporaryPath('model');
    const fetch = breakingFetch(9_000_000);
    await expect(downloadFrom(hub(), 'hf://org/single', folder, { fetch })).rejects.toThrow();
    const partial = namesIn(folder).find((name) => name.endsWith('.incomplete')) ?? '';
    const mine = join(emptyFolder('outside'), 'mine');
    for (const link of [symlinkSync, linkSync]) {
      writeFileSync(mine, 'my own');
      execFileSync('rm', ['-rf', folder]);
      mkdirSync(folder);
      link(mine, join(folder, partial));
      await downloadFrom(hub(), 'hf://org/single', folder);
      expect(readFileSync(mine, 'latin1')).toBe('my own');
      expect(namesIn(folder)).toEqual(['config.json', 'model.safetensors']);
    }
  });
});

it.skipIf(process.platform === 'win32')('does not wait for FIFOs in its way', async () => {
  const server = await FileServer.start();
  try {
    const folder = emptyFolder('model');
    server.files.set('model.safetensors', { bytes: SHARD, tag: '"1"' });
    const index = Buffer.from(JSON.stringify({ weight_map: { embed: 'model.safetensors' } }));
    server.files.set('model.safetensors.index.json', { bytes: index, tag: '"1"' });
    const source = server.url('model.safetensors.index.json');
    await downloadFrom(hub(), source, folder);
    const record = namesIn(folder).find((name) => name.endsWith('.downloaded')) ?? '';
    execFileSync('rm', [join(folder, record)]);
    execFileSync('mkfifo', [join(folder, record)]);
    const replacing = { overwrite: true };
    const { downloadedBytes } = await downloadFrom(hub(), source, folder, replacing);
    expect(downloadedBytes).toBe(SHARD.length);
    execFileSync('rm', [join(folder, 'model.safetensors')]);
    execFileSync('mkfifo', [join(folder, 'model.safetensors')]);
    await expect(downloadFrom(hub(), source, folder)).rejects.toMatchObject({
      code: 'SAFETENSORS_NOT_A_REGULAR_FILE',
    });
  } finally {
    await server.close();
  }
});
