/** One function over every kind of handle, with the same answers. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  openCheckpoint,
  parse,
  safeOpen,
  saveCheckpoint,
  saveFileSync,
  type TensorSource,
} from '../../src/index.js';
import { openRemote } from '../../src/remote.js';

const TENSORS = {
  b: { dtype: 'U8', shape: [3], data: Uint8Array.of(1, 2, 3) },
  a: { dtype: 'F32', shape: [2, 3], data: Float32Array.of(0, 1, 2, 3, 4, 5) },
  none: { dtype: 'F32', shape: [0, 2], data: new Float32Array(0) },
} as const;
const NAMES = ['a', 'b', 'none'];

const folder = mkdtempSync(join(tmpdir(), 'safetensors-'));
const path = join(folder, 'one.safetensors');

/** Opens the same tensors in every way. */
const KINDS: Readonly<Record<string, () => Promise<TensorSource> | TensorSource>> = {
  'a mapped file': () => safeOpen(path),
  'a file that is read': () => safeOpen(path, { storage: 'read' }),
  'parsed bytes': () => parse(readFileSync(path)),
  'a checkpoint of one file': () => openCheckpoint(path),
  'a checkpoint of shards': () => openCheckpoint(join(folder, 'shards')),
  'a remote file': () => openRemote(new Blob([readFileSync(path)])),
};

beforeAll(async () => {
  await saveCheckpoint(join(folder, 'shards'), TENSORS, { maxShardSize: 12 });
  saveFileSync(path, TENSORS);
});

const opened: TensorSource[] = [];
afterAll(() => {
  for (const source of opened) source.close();
  rmSync(folder, { recursive: true });
});

/** What a function can find out of any source. */
async function described(source: TensorSource): Promise<unknown> {
  const tensors = await source.readTensors();
  const entries = await source.tensors();
  expect([...tensors.keys()]).toEqual(entries.map(({ name }) => name));
  const sorted = entries.toSorted((x, y) => (x.name < y.name ? -1 : 1));
  return {
    names: source.keys(),
    size: source.size,
    ok: source.ok,
    has: [...NAMES, 'c'].map((name) => source.has(name)),
    entries: sorted.map(({ name, dtype, shape, byteLength }) => [name, dtype, shape, byteLength]),
    values: sorted.map(({ name }) => Array.from(tensors.get(name)?.toFloat32() ?? [])),
  };
}

describe.each(Object.entries(KINDS))('%s', (kind, open) => {
  const openOne = async (): Promise<TensorSource> => {
    const source = await open();
    opened.push(source);
    return source;
  };

  test('answers as all others do', async () => {
    expect(await described(await openOne())).toEqual({
      names: NAMES,
      size: 3,
      ok: true,
      has: [true, true, true, false],
      entries: [
        ['a', 'F32', [2, 3], 24],
        ['b', 'U8', [3], 3],
        ['none', 'F32', [0, 2], 0],
      ],
      values: [[0, 1, 2, 3, 4, 5], [1, 2, 3], []],
    });
  });

  test('lists the file of each tensor, and where its bytes are there', async () => {
    const source = await openOne();
    const entries = await source.tensors();
    const files = new Set(entries.map(({ file }) => file));
    expect(files.size).toBe(kind.endsWith('shards') ? 2 : 1);
    for (const { dataOffsets, byteLength } of entries) {
      expect(dataOffsets[1] - dataOffsets[0]).toBe(byteLength);
    }
    for (const entry of entries) expect(Object.isFrozen(entry)).toBe(true);
    expect(await source.tensors()).not.toBe(entries);
  });

  test('gives copies, in the order asked for, which outlive it', async () => {
    const source = await openOne();
    const [one, two] = await Promise.all([source.readTensors(['b', 'a']), source.readTensors()]);
    expect([...one.keys()]).toEqual(['b', 'a']);
    one.get('b')?.bytes.fill(9);
    expect([...(two.get('b')?.bytes ?? [])]).toEqual([1, 2, 3]);
    expect([...((await source.readTensors(['b'])).get('b')?.bytes ?? [])]).toEqual([1, 2, 3]);
    source.close();
    expect([...(one.get('b')?.bytes ?? [])]).toEqual([9, 9, 9]);
    expect(two.get('a')?.buffer.byteLength).toBe(24);
  });

  test('ends by a signal, and refuses names that are not there and options of others', async () => {
    const source = await openOne();
    const signal = AbortSignal.abort('why');
    await expect(source.tensors({ signal })).rejects.toBe('why');
    await expect(source.readTensors(undefined, { signal })).rejects.toBe('why');
    const missing = { code: 'SAFETENSORS_TENSOR_NOT_FOUND', tensor: 'c' };
    await expect(source.readTensors(['a', 'c'])).rejects.toMatchObject(missing);
    await expect(source.tensors({ signals: 1 } as never)).rejects.toThrow('did you mean signal');
    await expect(source.tensors({ signal: 1 } as never)).rejects.toThrow(TypeError);
  });

  test('is closed once and for all', async () => {
    const source = await openOne();
    source.close();
    source.close();
    const closed = { code: 'SAFETENSORS_FILE_CLOSED' };
    expect(source.ok).toBe(false);
    expect(() => source.keys()).toThrow(expect.objectContaining(closed));
    expect(() => source.size).toThrow(expect.objectContaining(closed));
    await expect(source.tensors()).rejects.toMatchObject(closed);
    await expect(source.readTensors()).rejects.toMatchObject(closed);
  });
});

test('tensors() opens shards once, also when several callers want them at once', async () => {
  const checkpoint = openCheckpoint(join(folder, 'shards'));
  const lists = Promise.all([checkpoint.tensors(), checkpoint.tensors()]);
  const tensor = checkpoint.getTensor('a');
  const [one, two] = await lists;
  expect(one).toEqual(two);
  expect(one.map(({ name }) => name)).toEqual(checkpoint.offsetKeys());
  for (const { name, dtype, shape, dataOffsets } of one) {
    expect(checkpoint.info(name)).toEqual({ dtype, shape, dataOffsets });
  }
  expect(checkpoint.getTensor('a')).toBe(tensor);
  checkpoint.close();

  const ended = openCheckpoint(join(folder, 'shards'));
  const listing = ended.tensors();
  ended.close();
  await expect(listing).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
});
