import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeEach, expect, it } from 'vitest';
import { loadFile, safeOpen, saveFile } from '../../support/api.js';
import { fileBytes } from '../../support/make-file.js';
import { breakingFetch, downloadFrom, emptyFolder, namesIn, noise, useHub } from './downloads.js';

const LENGTH = 3_000_000;
const tensor = (name: string, seed: number): Parameters<typeof fileBytes>[0][number] => ({
  name,
  dtype: 'U8',
  shape: [LENGTH],
  bytes: noise(LENGTH, seed),
});
const SHARDS = {
  'model-00001-of-00002.safetensors': fileBytes([tensor('a', 1), tensor('b', 2), tensor('c', 3)], {
    metadata: { format: 'pt' },
  }),
  'model-00002-of-00002.safetensors': fileBytes([tensor('d', 4), tensor('e', 5)], {
    metadata: { format: 'pt' },
  }),
};
const hub = useHub({
  'org/sharded': {
    files: {
      ...SHARDS,
      'model.safetensors.index.json': JSON.stringify({
        metadata: { total_size: 5 * LENGTH, tied: 'a' },
        weight_map: Object.fromEntries(
          ['a', 'b', 'c', 'd', 'e'].map((name) => [
            name,
            `model-0000${name < 'd' ? 1 : 2}-of-00002.safetensors`,
          ]),
        ),
      }),
      'config.json': '{}',
    },
  },
  'org/disagreeing': {
    files: {
      'model-00001-of-00002.safetensors': fileBytes([{ name: 'a', dtype: 'F32', shape: [2] }], {
        metadata: { format: 'pt', step: '1' },
      }),
      'model-00002-of-00002.safetensors': fileBytes([{ name: 'b', dtype: 'F32', shape: [2] }], {
        metadata: { format: 'pt', step: '2' },
      }),
      'model.safetensors.index.json': JSON.stringify({
        weight_map: {
          a: 'model-00001-of-00002.safetensors',
          b: 'model-00002-of-00002.safetensors',
        },
      }),
    },
  },
  'org/empty': { files: { 'model.safetensors': fileBytes([]) } },
});

const source = 'hf://org/sharded';
const file = `${source}/model-00001-of-00002.safetensors`;
let folder = '';
beforeEach(() => {
  folder = emptyFolder('target');
});

it('lists metadata keys on which the shards disagree, also in a dry run', async () => {
  const disagreeing = 'hf://org/disagreeing';
  const conflictsOf = async (options: object): Promise<readonly string[]> =>
    (await downloadFrom(hub(), disagreeing, folder, options)).conflicts;
  expect(await conflictsOf({ dtype: 'F16', dryRun: true })).toEqual(['step']);
  expect(await conflictsOf({ dtype: 'F16' })).toEqual(['step']);
  expect(safeOpen(folder).metadata?.has('step')).toBe(false);
  expect(await conflictsOf({ names: ['a'] })).toEqual([]);
});

it('fetches the named tensors only, as one checkpoint', async () => {
  hub().requests.length = 0;
  const names = ['d', 'b'];
  const { byteLength, downloadedBytes } = await downloadFrom(hub(), source, folder, { names });
  expect(downloadedBytes).toBe(byteLength);
  expect(byteLength).toBeLessThan(2 * LENGTH + 500);
  const tensors = loadFile(folder);
  expect([...tensors.keys()]).toEqual(names.toSorted());
  expect(Buffer.from(tensors.get('b')?.bytes ?? []).equals(noise(LENGTH, 2))).toBe(true);
  expect(Buffer.from(tensors.get('d')?.bytes ?? []).equals(noise(LENGTH, 4))).toBe(true);
  const sent = hub().requests.filter(({ server }) => server === 'network');
  // Two headers, and the two tensors, which lie apart.
  expect(sent).toHaveLength(4);
});

it('writes the file that saveFile writes', async () => {
  const path = join(folder, 'some.safetensors');
  const names = (name: string, { shape }: { shape: readonly number[] }): boolean =>
    name !== 'b' && shape[0] === LENGTH;
  await downloadFrom(hub(), file, path, { names });
  const other = join(folder, 'saved.safetensors');
  const tensors = { a: tensorOf(1), c: tensorOf(3) };
  await saveFile(other, tensors, { metadata: { format: 'pt' } });
  expect(readFileSync(path).equals(readFileSync(other))).toBe(true);
});

function tensorOf(seed: number): { dtype: 'U8'; shape: number[]; data: Uint8Array } {
  return { dtype: 'U8', shape: [LENGTH], data: noise(LENGTH, seed) };
}

it('splits all tensors by maxShardSize, and takes the files beside them', async () => {
  const { files } = await downloadFrom(hub(), source, folder, { maxShardSize: 2 * LENGTH });
  expect(files.map(({ name }) => name)).toEqual([
    'model-00001-of-00003.safetensors',
    'model-00002-of-00003.safetensors',
    'model-00003-of-00003.safetensors',
    'model.safetensors.index.json',
    'config.json',
  ]);
  using checkpoint = safeOpen(folder);
  expect((await checkpoint.verify()).problems).toEqual([]);
  expect([checkpoint.keys(), checkpoint.has('tied')]).toEqual([['a', 'b', 'c', 'd', 'e'], true]);
});

it('knows an alias, and counts its tensor once', async () => {
  await downloadFrom(hub(), source, folder, { names: ['tied', 'a'] });
  expect([...loadFile(join(folder, 'model.safetensors')).keys()]).toEqual(['a']);
});

/** One tensor a file, of which three are under way at a time. */
const four = { names: ['a', 'b', 'd', 'e'], maxShardSize: LENGTH } as const;

/** Breaks a download when at least one file is whole; returns the paths of its leftovers. */
async function leftOf(): Promise<string[]> {
  const cut = downloadFrom(hub(), source, folder, { ...four, fetch: breakingFetch(11_000_000) });
  await expect(cut).rejects.toThrow('the line is cut');
  const left = namesIn(folder).filter((name) => name.endsWith('.incomplete'));
  return left.map((name) => join(folder, name));
}

it('goes on with whole files where it broke, and recognises what it has finished', async () => {
  const left = await leftOf();
  expect(left.length).toBeGreaterThan(0);
  const leftByteLength = left.reduce((sum, path) => sum + statSync(path).size, 0);
  expect(leftByteLength).toBeGreaterThan(left.length * LENGTH);
  const { reusedBytes } = await downloadFrom(hub(), source, folder, four);
  expect(reusedBytes).toBe(leftByteLength);
  expect(loadFile(folder).size).toBe(4);
  const again = await downloadFrom(hub(), source, folder, four);
  // All but the index, which is made here.
  const [index] = again.files.filter(({ name }) => name.endsWith('.json'));
  const weights = again.byteLength - (index?.byteLength ?? 0);
  expect([again.downloadedBytes, again.reusedBytes]).toEqual([0, weights]);
  const other = await downloadFrom(hub(), source, folder, { names: ['a', 'b', 'd'] });
  expect(other.downloadedBytes).toBe(other.byteLength);
});

it('fetches a file again that was whole and has changed, or has no note', async () => {
  const left = await leftOf();
  for (const [i, path] of left.entries()) {
    const bytes = readFileSync(path);
    bytes[bytes.length - 1] = (bytes.at(-1) as number) ^ 1;
    if (i === 0) writeFileSync(path, bytes);
  }
  const notes = namesIn(folder).filter((name) => name.endsWith('.downloaded'));
  for (const name of notes.slice(1)) rmSync(join(folder, name));
  const { reusedBytes } = await downloadFrom(hub(), source, folder, four);
  expect(reusedBytes).toBeLessThanOrEqual(LENGTH + 1000);
  const tensors = loadFile(folder);
  for (const [i, name] of ['a', 'b', 'd', 'e'].entries()) {
    const seed = i < 2 ? i + 1 : i + 2;
    const bytes = Buffer.from(tensors.get(name)?.bytes ?? []);
    expect([name, bytes.equals(noise(LENGTH, seed))]).toEqual([name, true]);
  }
});

it('takes the place of a whole checkpoint, and the other way round', async () => {
  await downloadFrom(hub(), source, folder);
  const { deleted } = await downloadFrom(hub(), source, folder, { names: ['c'] });
  expect(deleted).toHaveLength(3);
  expect([...loadFile(folder).keys()]).toEqual(['c']);
  await downloadFrom(hub(), source, folder);
  expect(loadFile(folder).size).toBe(5);
  expect(namesIn(folder).filter((name) => name.endsWith('.downloaded'))).toEqual([]);
});

it('refuses unknown names, an empty choice, and the cache', async () => {
  const of = (names: Iterable<string> | (() => boolean), target = folder): Promise<unknown> =>
    downloadFrom(hub(), source, target, { names });
  await expect(of(['x'])).rejects.toMatchObject({ code: 'SAFETENSORS_TENSOR_NOT_FOUND' });
  await expect(of(() => false)).rejects.toThrow(RangeError);
  await expect(of(['a'], 'cache')).rejects.toThrow(RangeError);
});

it('writes a checkpoint without tensors as it is', async () => {
  await downloadFrom(hub(), 'hf://org/empty', folder, { dtype: 'F16' });
  expect(loadFile(folder).size).toBe(0);
});
