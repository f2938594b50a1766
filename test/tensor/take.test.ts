import { constants } from 'node:buffer';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { TypedArray } from '../../src/header/dtype.js';
import type { RowIndices } from '../../src/tensor/rows.js';
import { DTYPES, type Dtype, safeOpen, type Tensor } from '../support/api.js';
import { TWO_SHARDS, writeCheckpoint } from '../support/make-checkpoint.js';
import { writeSparse } from '../support/make-file.js';
import { type Opener, openers } from './openers.js';
import { bytesOf } from './strided-oracle.js';

const ALL_DTYPES = Object.keys(DTYPES) as Dtype[];

/** The bytes of rows, one by one. */
function naiveTake(tensor: Tensor, indices: readonly number[]): Buffer {
  const rowCount = tensor.shape[0] as number;
  const rowLength = tensor.byteLength / rowCount;
  const { bytes } = tensor.copy();
  return Buffer.concat(
    indices.map((index) => {
      const begin = (index < 0 ? index + rowCount : index) * rowLength;
      return bytes.subarray(begin, begin + rowLength);
    }),
  );
}

/** Every form in which a caller may have indices. */
const forms: readonly (readonly [string, (indices: number[]) => RowIndices])[] = [
  ['numbers', (indices) => indices],
  ['bigints', (indices) => indices.map(BigInt)],
  ['Int32Array', (indices) => Int32Array.from(indices)],
  ['BigInt64Array', (indices) => BigInt64Array.from(indices.map(BigInt))],
  ['Int16Array', (indices) => Int16Array.from(indices)],
];

/** Shapes with whole bytes in every row, for every dtype, and indices. */
const tables = fc
  .record({
    dtype: fc.constantFrom(...ALL_DTYPES),
    rows: fc.integer({ min: 1, max: 9 }),
    columns: fc.array(fc.integer({ min: 1, max: 4 }), { maxLength: 2 }),
    padding: fc.nat(7),
    form: fc.constantFrom(...forms),
  })
  .chain((table) =>
    fc.record({
      table: fc.constant(table),
      indices: fc.array(fc.integer({ min: -table.rows, max: table.rows - 1 }), { maxLength: 12 }),
    }),
  );

function openTable(open: Opener, dtype: Dtype, shape: number[], padding = 0): Tensor {
  const length = (shape.reduce((a, b) => a * b, 1) * DTYPES[dtype].bits) / 8;
  const entry = { name: 't', dtype, shape, bytes: bytesOf(length) };
  return open([entry], { padding }).getTensor('t');
}

describe.each(openers)('%s', (kind, open) => {
  test('every dtype, shape and form of indices as a naive take', async () => {
    await fc.assert(
      fc.asyncProperty(tables, async ({ table, indices }) => {
        const { dtype, rows, columns, padding, form } = table;
        const shape = [rows, ...columns, ...(DTYPES[dtype].bits < 8 ? [4] : [])];
        const given = form[1](indices);
        const make = (): Tensor => openTable(open, dtype, shape, padding);
        const expected = naiveTake(make(), indices);

        const taken = make().take(given);
        expect(taken).toMatchObject({
          name: 't',
          dtype,
          shape: [indices.length, ...shape.slice(1)],
        });
        expect(expected.equals(taken.bytes)).toBe(true);
        expect(expected.equals((await make().takeAsync(given)).bytes)).toBe(true);
        const values = taken.toFloat32();
        expect(make().takeFloat32(given)).toEqual(values);
        expect(await make().takeFloat32Async(given)).toEqual(values);

        const resolved = make();
        resolved.buffer;
        expect(expected.equals(resolved.take(given).bytes)).toBe(true);
        expect(resolved.takeFloat32(given)).toEqual(values);
      }),
      { numRuns: 60 },
    );
  });

  test('of slices, gathered slices and copies', () => {
    const tensor = openTable(open, 'I16', [6, 4]);
    for (const part of [
      tensor.slice([2, 5]),
      tensor.slice(null, [null, null, 2]),
      tensor.slice(3),
      tensor.slice([1, 4]).copy(),
      tensor.take([5, 0]),
    ]) {
      const expected = naiveTake(part, [1, -1, 0]);
      expect(expected.equals(part.take([1, -1, 0]).bytes)).toBe(true);
    }
  });

  test.each([
    ['rows that no window holds whole', 'BF16', [9, 401_000]],
    ['many rows in a window', 'BF16', [700, 1201]],
    ['more rows than a window may have', 'U8', [5000, 3]],
    ['packed rows of an odd length', 'F6_E2M3', [3000, 516]],
  ] as const)('%s', async (_, dtype, shape) => {
    const tensor = openTable(open, dtype, [...shape], 1);
    const [rowCount] = shape;
    const indices = Array.from({ length: 9000 }, (_, i) => (i * 7919) % rowCount);
    const count = Math.ceil(3e6 / (tensor.byteLength / rowCount));
    // Neighbours, too, which are copied in one go.
    const rows = [...indices.slice(0, count), 1, 2, 3, 4, 5, 6, 7, 8, 0, 1];
    const expected = naiveTake(tensor, rows);
    expect(expected.equals(tensor.take(rows).bytes)).toBe(true);
    expect(expected.equals((await tensor.takeAsync(rows)).bytes)).toBe(true);
    const values = tensor.take(rows).toFloat32();
    const isSame = (floats: Float32Array): boolean =>
      Buffer.from(floats.buffer).equals(Buffer.from(values.buffer));
    expect(isSame(tensor.takeFloat32(rows))).toBe(true);
    expect(isSame(await tensor.takeFloat32Async(rows))).toBe(true);
  });

  test('into arrays of the caller', async () => {
    const tensor = openTable(open, 'BF16', [5, 3], 1);
    const expected = [...naiveTake(tensor, [4, -5])];
    const room = (): Uint8Array<ArrayBuffer> => new Uint8Array(16).fill(77);
    const arrays = (memory: Uint8Array): TypedArray[] => [
      memory.subarray(2, 14),
      new Uint16Array(memory.buffer, 2, 6),
      new Int16Array(memory.buffer, 2, 6),
      Buffer.from(memory.buffer, 2, 12),
    ];
    for (let i = 0; i < 4; i++) {
      for (const how of ['take', 'takeAsync'] as const) {
        const memory = room();
        const into = arrays(memory)[i] as TypedArray;
        const taken = await tensor[how]([4, -5], { into });
        expect([...taken.bytes]).toEqual(expected);
        expect([taken.buffer, taken.byteOffset]).toEqual([memory.buffer, 2]);
        expect([...memory]).toEqual([77, 77, ...expected, 77, 77]);
      }
    }
    const values = tensor.take([4, -5]).toFloat32();
    const floats = new Float32Array(8).fill(7);
    const into = floats.subarray(1, 7);
    expect(tensor.takeFloat32([4, -5], { into })).toBe(into);
    expect([...floats]).toEqual([7, ...values, 7]);
    const shared = new Float32Array(new SharedArrayBuffer(24));
    expect(await tensor.takeFloat32Async([4, -5], { into: shared })).toBe(shared);
    expect([...shared]).toEqual([...values]);
    const sharedBytes = new Uint8Array(new SharedArrayBuffer(12));
    expect([...tensor.take([4, -5], { into: sharedBytes }).bytes]).toEqual(expected);
    expect([...sharedBytes]).toEqual(expected);
  });

  test('no indices, no columns, no rows', async () => {
    const file = open([
      { name: 'table', dtype: 'F32', shape: [3, 2] },
      { name: 'thin', dtype: 'F32', shape: [3, 0, 2] },
      { name: 'empty', dtype: 'F32', shape: [0, 2] },
    ]);
    const table = file.getTensor('table');
    for (const none of [[], new BigInt64Array(0)]) {
      expect(table.take(none)).toMatchObject({ shape: [0, 2], byteLength: 0 });
      expect(await table.takeAsync(none)).toMatchObject({ shape: [0, 2], byteLength: 0 });
      expect(table.takeFloat32(none)).toEqual(new Float32Array(0));
      expect(file.getTensor('empty').take(none).shape).toEqual([0, 2]);
    }
    expect(file.getTensor('thin').take([2, 2]).shape).toEqual([2, 0, 2]);
    expect(file.getTensor('thin').takeFloat32([2, 2])).toEqual(new Float32Array(0));
    expect(() => file.getTensor('thin').take([3])).toThrow('indices[0]');
    expect(() => file.getTensor('empty').take([0])).toThrow('dimension 0 of size 0');
  });

  test('what is wrong is found before anything is written', async () => {
    const file = open([
      { name: 't', dtype: 'F32', shape: [4, 2] },
      { name: 'scalar', dtype: 'F32', shape: [] },
      { name: 'packed', dtype: 'F4', shape: [4, 3] },
    ]);
    const tensor = file.getTensor('t');
    const about = { ...(kind !== 'memory' && { path: file.path }), tensor: 't' };
    const into = new Float32Array(6).fill(7);
    async function expectError(indices: unknown, error: object): Promise<void> {
      const matching = expect.objectContaining(error);
      const given = indices as RowIndices;
      expect(() => tensor.take(given, { into })).toThrow(matching);
      expect(() => tensor.takeFloat32(given, { into })).toThrow(matching);
      await expect(tensor.takeAsync(given, { into })).rejects.toEqual(matching);
      await expect(tensor.takeFloat32Async(given, { into })).rejects.toEqual(matching);
      expect([...into]).toEqual([7, 7, 7, 7, 7, 7]);
    }
    const outOfRange = {
      name: 'SafetensorsError',
      code: 'SAFETENSORS_SLICE_OUT_OF_RANGE',
      ...about,
    };
    const message = expect.stringMatching(
      /indices\[2\] is 4, out of range for dimension 0 of size 4$/,
    );
    await expectError([0, 1, 4], { ...outOfRange, message });
    await expectError([0, 1, -5], outOfRange);
    await expectError([0, 1, 2n ** 64n], outOfRange);
    await expectError(BigInt64Array.of(0n, 1n, -(2n ** 63n)), outOfRange);
    await expectError(Uint32Array.of(0, 1, 2 ** 32 - 1), outOfRange);
    const wrongType = { name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' };
    for (const index of [1.5, Number.NaN, Number.POSITIVE_INFINITY, '1', null, undefined, [1]]) {
      await expectError([0, 1, index], wrongType);
    }
    // biome-ignore lint/suspicious/noSparseArray: a hole is no index
    await expectError([0, , 1], wrongType);
    for (const list of [1, '012', null, undefined, { length: 3 }, new Set([0, 1, 2])]) {
      await expectError(list, wrongType);
    }
    for (const list of [Float32Array.of(0, 1, 2), Float64Array.of(0, 1, 2)]) {
      await expectError(list, wrongType);
    }
    await expectError([0, 1], { code: 'ERR_OUT_OF_RANGE' });
    expect(() => file.getTensor('scalar').take([0])).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_TOO_MANY_INDICES' }),
    );
    expect(() => file.getTensor('packed').take([0, 1])).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_MISALIGNED_SLICE' }),
    );
  });

  test('an array for other elements is refused', async () => {
    const tensor = openTable(open, 'BF16', [4, 2]);
    const mismatch = expect.objectContaining({ code: 'SAFETENSORS_DTYPE_MISMATCH' });
    for (const into of [new Float32Array(1), new Uint32Array(1), new Float64Array(1)]) {
      expect(() => tensor.take([0], { into })).toThrow(mismatch);
      await expect(tensor.takeAsync([0], { into })).rejects.toEqual(mismatch);
    }
    expect(() => tensor.take([0], { into: new Float32Array(1) })).toThrow('takeFloat32()');
    for (const into of [[1, 2], new DataView(new ArrayBuffer(4)), new ArrayBuffer(4)]) {
      expect(() => tensor.take([0], { into: into as never })).toThrow(TypeError);
    }
    expect(() => tensor.take([0], { into: new Uint16Array(3) })).toThrow(
      'the length of into must be 4 bytes, but is 6',
    );
    expect(() => tensor.takeFloat32([0], { into: new Uint16Array(2) as never })).toThrow(TypeError);
    expect(() => tensor.takeFloat32([0], { into: new Float32Array(3) })).toThrow(RangeError);
    const unknown = expect.objectContaining({ code: 'ERR_INVALID_ARG_VALUE' });
    expect(() => tensor.takeFloat32([0], { out: 1 } as never)).toThrow(unknown);
    await expect(tensor.toFloat32Async({ out: 1 } as never)).rejects.toEqual(unknown);
  });

  test('memory of the rows themselves is refused', async () => {
    for (const dtype of ['F32', 'BF16'] as const) {
      const tensor = openTable(open, dtype, [4, 2]);
      const before = tensor.copy().bytes;
      const { buffer, byteOffset } = tensor.bytes;
      const within = { code: 'ERR_OUT_OF_RANGE', message: expect.stringMatching(/^into must be /) };
      const into = new Uint8Array(buffer, byteOffset, tensor.byteLength / 2);
      expect(() => tensor.take([1, 0], { into })).toThrow(expect.objectContaining(within));
      await expect(tensor.takeAsync([1, 0], { into })).rejects.toMatchObject(within);
      const part = tensor.slice([1, 3]);
      const own = new Uint8Array(part.bytes.buffer, part.bytes.byteOffset, part.byteLength);
      expect(() => part.take([1, 0], { into: own })).toThrow(expect.objectContaining(within));
      expect(Buffer.compare(tensor.bytes, before)).toBe(0);
    }
    const tensor = openTable(open, 'F32', [4, 2]).expectDtype('F32');
    const into = tensor.view(Float32Array);
    // Where the bytes are not aligned it is a copy.
    if (into.buffer !== tensor.buffer) return;
    expect(() => tensor.takeFloat32([3, 2, 1, 0], { into })).toThrow(RangeError);
    await expect(tensor.takeFloat32Async([3, 2, 1, 0], { into })).rejects.toThrow(RangeError);
  });

  test('the list may change while rows are taken', async () => {
    const tensor = openTable(open, 'U8', [4, 2]);
    const indices = [1, 2];
    const taking = tensor.takeAsync(indices);
    indices[0] = 99;
    expect(naiveTake(tensor, [1, 2]).equals((await taking).bytes)).toBe(true);
  });
});

test('tensors of a checkpoint', () => {
  const checkpoint = safeOpen(writeCheckpoint(TWO_SHARDS));
  const tensor = checkpoint.getTensor('embed');
  expect([...tensor.take([3, 1]).bytes]).toEqual([7, 8, 3, 4]);
  checkpoint.close();
});

const tooLarge = 2 ** 32 + 2 ** 20;

describe('above the limit for buffers', () => {
  test.each(['mmap', 'read'] as const)('%s: rows are taken', async (storage) => {
    using file = safeOpen(writeSparse(tooLarge), { storage });
    const tensor = file.getTensor('t');
    const into = new Uint8Array(3 * 2 ** 20).fill(1);
    tensor.take([-1, 2048, 0], { into });
    expect(into.every((byte) => byte === 0)).toBe(true);
    expect((await tensor.takeAsync([4096])).byteLength).toBe(2 ** 20);
    if (tooLarge > constants.MAX_LENGTH) {
      const code = 'SAFETENSORS_TENSOR_TOO_LARGE';
      const error = expect.objectContaining({ code, tensor: 't' });
      expect(() => tensor.take(new Uint8Array(4097))).toThrow(error);
      await expect(tensor.takeFloat32Async(new Uint8Array(1025))).rejects.toEqual(error);
    }
  });
});
