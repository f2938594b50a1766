import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { openCheckpoint } from '../../src/index.js';
import { fileBytes, temporaryPath } from '../support/make-file.js';
import {
  breakingFetch,
  downloadFrom,
  emptyFolder,
  LARGE_BYTE_LENGTH,
  namesIn,
  noise,
  SHARDED,
  SINGLE,
  useHub,
} from './downloads.js';
import { FileServer } from './file-server.js';

const SHARD = fileBytes([
  { name: 'embed', dtype: 'U8', shape: [4] },
  { name: 'norm', dtype: 'U8', shape: [4] },
]);

const hub = useHub({
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
  const { commit, files, byteLength, receivedByteLength, presentByteLength, ...rest } =
    await downloadFrom(hub(), 'hf://org/sharded', folder);
  expect(namesIn(folder)).toEqual(NAMES);
  for (const name of NAMES) {
    expect(
      readFileSync(join(folder, name)).equals(Buffer.from(SHARDED[name] as string)),
      name,
    ).toBe(true);
  }
  const casts = { cast: [], overflowed: new Map() };
  expect(rest).toEqual({ path: folder, deleted: [], undeleted: [], skipped: [], ...casts });
  expect(files.map(({ name }) => name).toSorted()).toEqual(NAMES);
  expect(commit).toBe(hub().commit('org/sharded'));
  const index = Buffer.byteLength(SHARDED['model.safetensors.index.json'] as string);
  expect([receivedByteLength, presentByteLength]).toEqual([byteLength - index, 0]);
  using checkpoint = openCheckpoint(folder);
  expect(checkpoint.keys()).toEqual(['embed', 'norm']);
});

it('fetches nothing of a model that is there, but the list', async () => {
  const folder = temporaryPath('model');
  await downloadFrom(hub(), 'hf://org/sharded', folder);
  hub().requests.length = 0;
  const { receivedByteLength, presentByteLength } = await downloadFrom(
    hub(),
    'hf://org/sharded',
    folder,
  );
  expect([receivedByteLength, presentByteLength > LARGE_BYTE_LENGTH]).toEqual([0, true]);
  expect(hub().requests.map(({ path }) => path.split('/')[5])).toEqual(['revision', 'tree']);
});

it('goes on where a connection broke', async () => {
  const folder = temporaryPath('model');
  const cut = downloadFrom(hub(), 'hf://org/sharded', folder, { fetch: breakingFetch(9_000_000) });
  await expect(cut).rejects.toMatchObject({ code: 'SAFETENSORS_REMOTE_UNAVAILABLE' });
  expect(namesIn(folder).every((name) => name.endsWith('.incomplete'))).toBe(true);
  hub().requests.length = 0;
  const { receivedByteLength, presentByteLength } = await downloadFrom(
    hub(),
    'hf://org/sharded',
    folder,
  );
  expect(presentByteLength).toBeGreaterThan(3_000_000);
  expect(receivedByteLength).toBeLessThan(LARGE_BYTE_LENGTH - 3_000_000 + 1000);
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
  const { deleted } = await downloadFrom(hub(), 'hf://org/single', folder);
  expect(deleted.toSorted()).toEqual(NAMES.slice(1, 4));
  expect(namesIn(folder)).toEqual([
    'config.json',
    'model.safetensors',
    'notes.txt',
    'tokenizer.json',
  ]);
  await downloadFrom(hub(), 'hf://org/sharded', folder);
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
    using checkpoint = openCheckpoint(folder);
    await checkpoint.verify();
    server.sentByteLength = 0;
    const { receivedByteLength } = await downloadFrom(hub(), source, folder);
    expect(receivedByteLength).toBe(0);
    // The index, and a byte of every file.
    expect(server.sentByteLength).toBeLessThan(1000);
    const other = noise(1000);
    server.files.set(names[1] ?? '', { bytes: other, tag: '"other"' });
    await downloadFrom(hub(), source, folder);
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
  const { deleted, receivedByteLength } = await downloadFrom(hub(), 'hf://org/sharded', folder);
  expect([deleted, receivedByteLength]).toEqual([[stale], 0]);
  expect(namesIn(folder)).toEqual(NAMES);
});

it('takes shards of one name and the same contents in two folders', async () => {
  const folder = temporaryPath('model');
  await downloadFrom(hub(), 'hf://org/folders', folder);
  using checkpoint = openCheckpoint(folder);
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
    using checkpoint = openCheckpoint(folder);
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
        using checkpoint = openCheckpoint(folder);
        expect(checkpoint.keys()).toEqual(['embed']);
      }
    } finally {
      await server.close();
    }
  },
);
