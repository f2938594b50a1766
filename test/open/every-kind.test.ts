/** One function over every kind of handle, with the same answers. */
import fs, { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { inflateRawSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { unicode } from '../foreign/pickle/pickle-bytes.js';
import { dict, legacyFile, tensor } from '../foreign/torch/legacy-file.js';
import {
  openRemote,
  parse,
  safeOpen,
  saveCheckpoint,
  saveFileSync,
  type TensorEntry,
  type TensorSource,
} from '../support/api.js';
import { openNumpy, openTorchCheckpoint } from '../support/internal-openers.js';
import { writeArchive } from '../write/convert/archives.js';

const TENSORS = {
  b: { dtype: 'F32', shape: [3], data: Float32Array.of(0, 1, 2) },
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
  'a checkpoint of one file': () => safeOpen(path),
  'a checkpoint of shards': () => safeOpen(join(folder, 'shards')),
  'a checkpoint of torch': () => openTorchCheckpoint(torchFile('a', 'b', 'none')),
  'a checkpoint of torch in shards': () => openTorchCheckpoint(torchIndex),
  'an archive of arrays': () => openNumpy(writeArrays(false)),
  'a compressed archive of arrays': () => openNumpy(writeArrays(true)),
  'a remote file': () => openRemote(new Blob([readFileSync(path)])),
};

/** A file of torch with some of the tensors, each over a storage of its own. */
function torchFile(...names: readonly (keyof typeof TENSORS)[]): string {
  const pairs = names.map((name, i) => {
    const { shape } = TENSORS[name];
    const strides = shape.map((_, d) => shape.slice(d + 1).reduce((a, b) => a * b, 1));
    return [unicode(name), tensor(`${i}`, shape, strides)] as const;
  });
  return legacyFile(
    dict(...pairs),
    Object.fromEntries(names.map((name, i) => [i, TENSORS[name].data.length])),
  );
}

const torchIndex = join(folder, 'pytorch_model.bin.index.json');

function writeTorchShards(): void {
  cpSync(torchFile('a'), join(folder, '1.bin'));
  cpSync(torchFile('b', 'none'), join(folder, '2.bin'));
  const weightMap = { a: '1.bin', b: '2.bin', none: '2.bin' };
  writeFileSync(torchIndex, JSON.stringify({ weight_map: weightMap }));
}

function writeArrays(isDeflated: boolean): string {
  const files = Object.entries(TENSORS).map(([name, { shape, data }]) => {
    const text = `{'descr': '<f4', 'fortran_order': False, 'shape': (${shape.join(', ')},), }`;
    const head = Buffer.from(`\x93NUMPY\x01\0\x76\0${text.padEnd(117)}\n`, 'latin1');
    return {
      name: `${name}.npy`,
      data: Buffer.concat([head, new Uint8Array(data.buffer)]),
      isDeflated,
    };
  });
  const target = join(folder, `arrays-${isDeflated}.npz`);
  writeFileSync(target, writeArchive(files));
  return target;
}

beforeAll(async () => {
  writeTorchShards();
  await saveCheckpoint(join(folder, 'shards'), TENSORS, { maxShardSize: 12 });
  saveFileSync(path, TENSORS);
});

const opened: TensorSource[] = [];
afterAll(() => {
  for (const source of opened) source.close();
  rmSync(folder, { recursive: true });
});

/** Everything that a function can ask of any source. */
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

/** The bytes of the file to which an entry points: the tensor's, inflated where they are deflated. */
function placedBytes(
  kind: string,
  source: TensorSource,
  { file, dataOffsets }: TensorEntry,
): Buffer {
  const isHere = source.path !== undefined && kind !== 'a remote file';
  const bytes = readFileSync(isHere ? join(dirname(source.path), file) : path);
  const isOther = /torch|arrays/.test(kind);
  const start = isOther ? 0 : 8 + Number(bytes.readBigUInt64LE());
  const [begin, end] = dataOffsets;
  const placed = bytes.subarray(start + begin, start + end);
  return kind.includes('compressed') ? inflateRawSync(placed).subarray(128) : placed;
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
        ['b', 'F32', [3], 12],
        ['none', 'F32', [0, 2], 0],
      ],
      values: [[0, 1, 2, 3, 4, 5], [0, 1, 2], []],
    });
  });

  test('lists the file of each tensor, and where its bytes are there', async () => {
    const source = await openOne();
    const entries = await source.tensors();
    const files = new Set(entries.map(({ file }) => file));
    expect(files.size).toBe(kind.endsWith('shards') ? 2 : 1);
    for (const entry of entries) {
      const { data } = TENSORS[entry.name as keyof typeof TENSORS];
      expect(placedBytes(kind, source, entry)).toEqual(Buffer.from(data.buffer));
    }
    for (const entry of entries) expect(Object.isFrozen(entry)).toBe(true);
    expect(await source.tensors()).not.toBe(entries);
  });

  test('gives copies, in the order asked for, which outlive it', async () => {
    const source = await openOne();
    const [one, two] = await Promise.all([source.readTensors(['b', 'a']), source.readTensors()]);
    expect([...one.keys()]).toEqual(['b', 'a']);
    one.get('b')?.bytes.fill(9);
    expect(two.get('b')?.data).toEqual(TENSORS.b.data);
    expect((await source.readTensors(['b'])).get('b')?.data).toEqual(TENSORS.b.data);
    source.close();
    expect(one.get('b')?.bytes).toEqual(new Uint8Array(12).fill(9));
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

  test('refuses a name that is not text, in every method that takes one', async () => {
    const source = (await openOne()) as TensorSource & Record<string, unknown>;
    const calls = ['has', 'info', 'getTensor', 'getSlice', 'getPartition', 'residency'];
    const members = calls.filter((call) => typeof source[call] === 'function');
    expect(members.length).toBeGreaterThan(4);
    for (const name of [null, 7, {}, Symbol('a')]) {
      for (const call of members) {
        const rest = call === 'getPartition' ? [{ rank: 0, worldSize: 1 }] : [];
        const work = async (): Promise<unknown> =>
          (source[call] as (...args: unknown[]) => unknown)(name, ...rest);
        await expect(work(), `${call}(${String(name)})`).rejects.toMatchObject({
          code: 'ERR_INVALID_ARG_TYPE',
        });
      }
      await expect(source.readTensors([name] as never)).rejects.toMatchObject({
        code: 'ERR_INVALID_ARG_TYPE',
      });
    }
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
  const checkpoint = safeOpen(join(folder, 'shards'));
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

  const ended = safeOpen(join(folder, 'shards'));
  const listing = ended.tensors();
  ended.close();
  await expect(listing).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CLOSED' });
});

/** Every property that the handle's classes compute. */
function gettersOf(source: TensorSource): string[] {
  const names: string[] = [];
  for (let from = Object.getPrototypeOf(source); from !== Object.prototype; ) {
    const own = Object.entries(Object.getOwnPropertyDescriptors(from));
    names.push(...own.filter(([, { get }]) => get !== undefined).map(([name]) => name));
    from = Object.getPrototypeOf(from);
  }
  return names;
}

test.each(Object.entries(KINDS))('no property of %s needs its files', async (_, open) => {
  const names = ['readFileSync', 'readSync', 'openSync', 'statSync', 'fstatSync'] as const;
  const source = await open();
  const calls = names.map((name) => vi.spyOn(fs, name));
  syncBuiltinESMExports();
  const found = gettersOf(source).map((name) => [name, source[name as keyof TensorSource]]);
  const counts = calls.map(({ mock }) => mock.calls.length);
  for (const call of calls) call.mockRestore();
  syncBuiltinESMExports();
  source.close();
  expect(found.map(([name]) => name)).toEqual(expect.arrayContaining(['ok', 'size', 'metadata']));
  expect(found.filter(([, value]) => value instanceof Promise)).toEqual([]);
  expect(counts).toEqual(counts.map(() => 0));
});
