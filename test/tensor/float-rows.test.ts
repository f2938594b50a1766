/** Rows of tensors as float32: of every dtype and storage, at once, between other events, and in blocks. */
import { ftruncateSync, openSync, truncateSync, writeFileSync, writeSync } from 'node:fs';
import process from 'node:process';
import { describe, expect, test, vi } from 'vitest';
import { MemoryStorage } from '../../src/tensor/storage/memory.js';
import { StorageRange } from '../../src/tensor/storage-range.js';
import { TensorOf } from '../../src/tensor/tensor.js';
import {
  DTYPES,
  type Dtype,
  parse,
  safeOpen,
  select,
  serialize,
  type Tensor,
  type TransferProgress,
} from '../support/api.js';
import { fileBytes, temporaryPath } from '../support/make-file.js';
import { LARGE, MANY, scrambledBytes } from './many-values.js';
import { openers } from './openers.js';

const ALL = Object.keys(DTYPES) as Dtype[];

/** Bit patterns: NaN equals NaN of the same bits only. */
const bitsOf = (values: Float32Array): Uint32Array => new Uint32Array(values.slice().buffer);

describe.each(openers)('%s', (kind, open) => {
  const shape = [3, 2, 8] as const;
  const valuesOf = (dtype: Dtype): number => (dtype === 'C64' ? 16 : 8);

  /** At an odd address. */
  function openTensor(dtype: Dtype): Tensor {
    const bytes = scrambledBytes((48 * DTYPES[dtype].bits) / 8);
    return open([{ name: 't', dtype, shape, bytes }], { padding: 3 }).getTensor('t');
  }

  test.each(ALL)('%s: rows are those of the whole', async (dtype) => {
    const used = openTensor(dtype);
    const columns = valuesOf(dtype);
    const whole = used.toFloat32();
    expect(whole.length).toBe(6 * columns);
    for (const rows of [
      [0, 6],
      [0, 1],
      [5, 6],
      [1, 4],
      [2, 2],
      [6, 6],
    ] as const) {
      const expected = bitsOf(whole.subarray(rows[0] * columns, rows[1] * columns));
      // Their bytes were used, or not.
      for (const tensor of [used, openTensor(dtype)]) {
        expect(bitsOf(tensor.toFloat32({ rows }))).toEqual(expected);
        expect(bitsOf(await tensor.toFloat32Async({ rows }))).toEqual(expected);
        const into = new Float32Array(expected.length + 2).fill(7).subarray(1, -1);
        expect(tensor.toFloat32({ rows, into })).toBe(into);
        expect(bitsOf(into)).toEqual(expected);
        expect(await tensor.toFloat32Async({ rows, into: into.fill(0) })).toBe(into);
        expect(bitsOf(into)).toEqual(expected);
        const around = new Float32Array(into.buffer);
        expect([around[0], around.at(-1)]).toEqual([7, 7]);
      }
    }
  });

  test.each(ALL)('%s: blocks of rows are the whole', async (dtype) => {
    const tensor = openTensor(dtype);
    const columns = valuesOf(dtype);
    const whole = bitsOf(tensor.toFloat32());
    for (const [maxByteLength, lengths] of [
      [undefined, [6]],
      [1, [1, 1, 1, 1, 1, 1]],
      [4 * columns * 2 - 1, [1, 1, 1, 1, 1, 1]],
      [4 * columns * 2, [2, 2, 2]],
      [4 * columns * 4, [4, 2]],
    ] as const) {
      let next = 0;
      const found: number[] = [];
      for await (const { row, values } of tensor.rowBlocks({ maxByteLength })) {
        expect(row).toBe(next);
        expect(bitsOf(values)).toEqual(
          whole.subarray(row * columns, row * columns + values.length),
        );
        found.push(values.length / columns);
        next += values.length / columns;
      }
      expect(found).toEqual(lengths);
    }
    const some: number[] = [];
    for await (const { row } of tensor.rowBlocks({ rows: [1, 4], maxByteLength: 8 * columns })) {
      some.push(row);
    }
    expect(some).toEqual([1, 3]);
  });

  test('scalars and vectors have one row', async () => {
    const file = open([
      { name: 'scalar', dtype: 'U8', shape: [] },
      { name: 'line', dtype: 'U8', shape: [3] },
    ]);
    for (const [name, expected] of [
      ['scalar', [1]],
      ['line', [1, 2, 3]],
    ] as const) {
      const tensor = file.getTensor(name);
      expect([...tensor.toFloat32({ rows: [0, 1] })]).toEqual(expected);
      expect([...(await tensor.toFloat32Async({ rows: [0, 1] }))]).toEqual(expected);
      expect(() => tensor.toFloat32({ rows: [0, 2] })).toThrow(RangeError);
      for await (const { row, values } of tensor.rowBlocks()) {
        expect([row, [...values]]).toEqual([0, expected]);
      }
    }
  });

  test.each([[[0, 3]], [[3, 0]], [[2 ** 50, 0]], [[0, 2 ** 50, 0]], [[2 ** 26, 2 ** 26, 0, 5]]])(
    'an empty tensor of shape %j has no values',
    async (shape) => {
      for (const dtype of ['F16', 'F4', 'C64'] as const) {
        const tensor = open([{ name: 't', dtype, shape, bytes: new Uint8Array(0) }]).getTensor('t');
        const [rows] = shape.slice(0, -1).includes(0) ? [0] : [1];
        expect(tensor.toFloat32().length).toBe(0);
        expect(tensor.toFloat32({ rows: [0, rows] }).length).toBe(0);
        expect((await tensor.toFloat32Async()).length).toBe(0);
        expect((await tensor.toFloat32Async({ rows: [rows, rows] })).length).toBe(0);
        const into = new Float32Array(0);
        expect(tensor.toFloat32({ into })).toBe(into);
        for await (const { row } of tensor.rowBlocks()) expect.fail(`a block at ${row}`);
      }
    },
  );

  test('rows of a slice are counted from its start', async () => {
    const file = open([{ name: 't', dtype: 'U8', shape: [4, 3, 2] }]);
    const tensor = file.getTensor('t');
    const contiguous = tensor.slice([1, 3]);
    expect([...contiguous.toFloat32({ rows: [1, 3] })]).toEqual([9, 10, 11, 12]);
    expect([...(await contiguous.toFloat32Async({ rows: [5, 6] }))]).toEqual([17, 18]);
    const gathered = tensor.slice(null, 1, 1);
    expect([...gathered.toFloat32({ rows: [0, 1] })]).toEqual([4, 10, 16, 22]);
    const columns = tensor.slice(null, [1, 2]);
    expect([...(await columns.toFloat32Async({ rows: [2, 4] }))]).toEqual([15, 16, 21, 22]);
  });

  test('rows of packed dtypes must end on a byte', async () => {
    const file = open([
      { name: 'F4', dtype: 'F4', shape: [4, 3] },
      { name: 'F6_E2M3', dtype: 'F6_E2M3', shape: [4, 5] },
    ]);
    for (const [name, columns, wrong, right] of [
      ['F4', 3, [1, 2], [2, 4]],
      ['F6_E2M3', 5, [2, 4], [0, 4]],
    ] as const) {
      const tensor = file.getTensor(name);
      const whole = tensor.toFloat32();
      expect(whole.length).toBe(4 * columns);
      const part = whole.subarray(right[0] * columns, right[1] * columns);
      expect(tensor.toFloat32({ rows: right })).toEqual(part);
      expect(await tensor.toFloat32Async({ rows: right })).toEqual(part);
      const error = expect.objectContaining({ code: 'SAFETENSORS_MISALIGNED_SLICE', tensor: name });
      expect(() => tensor.toFloat32({ rows: wrong })).toThrow(error);
      await expect(tensor.toFloat32Async({ rows: wrong })).rejects.toEqual(error);
      await expect(tensor.rowBlocks({ maxByteLength: 1 }).next()).rejects.toEqual(error);
    }
  });

  test.each([
    [[0], TypeError, 'ERR_INVALID_ARG_TYPE'],
    [[0, 1, 2], TypeError, 'ERR_INVALID_ARG_TYPE'],
    ['0:2', TypeError, 'ERR_INVALID_ARG_TYPE'],
    [null, TypeError, 'ERR_INVALID_ARG_TYPE'],
    [['0', 2], TypeError, 'ERR_INVALID_ARG_TYPE'],
    [[0, 7], RangeError, 'ERR_OUT_OF_RANGE'],
    [[-1, 2], RangeError, 'ERR_OUT_OF_RANGE'],
    [[3, 2], RangeError, 'ERR_OUT_OF_RANGE'],
    [[0.5, 2], RangeError, 'ERR_OUT_OF_RANGE'],
    [[0, Number.NaN], RangeError, 'ERR_OUT_OF_RANGE'],
  ])('rows of %j are rejected', async (rows, type, code) => {
    const tensor = openTensor('F32');
    for (const call of [
      () => tensor.toFloat32({ rows: rows as never }),
      () => tensor.toFloat32Async({ rows: rows as never }),
      () => tensor.rowBlocks({ rows: rows as never }),
    ]) {
      const error: unknown = await (async () => await call())().catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(type);
      expect(error).toMatchObject({ code, message: expect.stringMatching(/^rows/) });
    }
  });

  test('into must have the length of the rows', async () => {
    const tensor = openTensor('BF16');
    const options = { rows: [1, 3], into: new Float32Array(48) } as const;
    expect(() => tensor.toFloat32(options)).toThrow('the length of into must be 16');
    await expect(tensor.toFloat32Async(options)).rejects.toThrow('the length of into must be 16');
  });

  test('wrong options are rejected', async () => {
    const tensor = openTensor('BF16');
    expect(() => tensor.toFloat32({ row: 1 } as never)).toThrow('unknown option');
    await expect(tensor.toFloat32Async({ row: 1 } as never)).rejects.toThrow('unknown option');
    await expect(tensor.toFloat32Async({ onProgress: 1 as never })).rejects.toThrow(TypeError);
    expect(() => tensor.rowBlocks({ into: new Float32Array(8) } as never)).toThrow(
      'unknown option',
    );
    expect(() => tensor.rowBlocks({ maxByteLength: 0 })).toThrow(RangeError);
    expect(() => tensor.rowBlocks({ maxByteLength: 1.5 })).toThrow(RangeError);
    expect(() => tensor.rowBlocks({ signal: 5 as never })).toThrow(TypeError);
  });

  test('an abort ends rows and blocks with its reason', async () => {
    const tensor = open(LARGE).getTensor('t');
    const reason = new Error('enough');
    const signal = AbortSignal.abort(reason);
    await expect(tensor.toFloat32Async({ rows: [0, 1], signal })).rejects.toBe(reason);
    await expect(tensor.rowBlocks({ signal }).next()).rejects.toBe(reason);
    const controller = new AbortController();
    const blocks = openTensor('F32').rowBlocks({ maxByteLength: 1, signal: controller.signal });
    expect((await blocks.next()).value?.row).toBe(0);
    controller.abort(reason);
    await expect(blocks.next()).rejects.toBe(reason);
    expect((await blocks.next()).done).toBe(true);
  });

  test('progress counts bytes of values', async () => {
    const reports: TransferProgress[] = [];
    const onProgress = (progress: TransferProgress): void => void reports.push(progress);
    await openTensor('C64').toFloat32Async({ rows: [1, 3], onProgress });
    expect(reports).toEqual([{ bytes: 128, totalBytes: 128 }]);
    let now = 0;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 101));
    try {
      reports.length = 0;
      await open(LARGE).getTensor('t').toFloat32Async({ onProgress });
    } finally {
      clock.mockRestore();
    }
    expect(reports.length).toBeGreaterThan(2);
    const totalBytes = 4 * MANY;
    for (const [i, { bytes, totalBytes: total }] of reports.entries()) {
      expect(total).toBe(totalBytes);
      expect(bytes).toBeGreaterThan(reports[i - 1]?.bytes ?? 0);
    }
    expect(reports.at(-1)).toEqual({ bytes: totalBytes, totalBytes });
    const failing = (): void => {
      throw new Error('enough');
    };
    await expect(openTensor('F32').toFloat32Async({ onProgress: failing })).rejects.toThrow(
      'enough',
    );
  });

  test('leaving the loop ends the blocks', async () => {
    const tensor = openTensor('F32');
    for await (const { row } of tensor.rowBlocks({ maxByteLength: 1 })) {
      expect(row).toBeLessThan(2);
      if (row === 1) break;
    }
  });

  test.skipIf(kind === 'memory')('rows of a file that was truncated are an error', async () => {
    const file = open([{ name: 't', dtype: 'F32', shape: [1024, 16] }]);
    const tensor = file.getTensor('t');
    truncateSync(file.path as string, 100);
    const changed = expect.objectContaining({ code: 'SAFETENSORS_FILE_CHANGED' });
    expect(() => tensor.toFloat32({ rows: [1000, 1001] })).toThrow(changed);
    await expect(tensor.toFloat32Async({ rows: [1000, 1001] })).rejects.toEqual(changed);
    await expect(tensor.rowBlocks().next()).rejects.toEqual(changed);
  });
});

// Sparse files: elsewhere 64 GiB would be written.
test.runIf(process.platform === 'linux')(
  'rows of a tensor that fits into no memory read only their own bytes',
  async () => {
    const path = temporaryPath('sparse.safetensors');
    const shape = [2 ** 22, 2 ** 12];
    const byteLength = 4 * 2 ** 34;
    const header = JSON.stringify({ t: { dtype: 'F32', shape, data_offsets: [0, byteLength] } });
    const start = 8 + header.length;
    const fd = openSync(path, 'w');
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(header.length));
    writeSync(fd, Buffer.concat([length, Buffer.from(header)]));
    ftruncateSync(fd, start + byteLength);
    writeSync(fd, Float32Array.of(5, 6), 0, 8, start + byteLength - 8);
    for (const storage of ['mmap', 'read'] as const) {
      using file = safeOpen(path, { storage });
      const tensor = file.getTensor('t');
      const rows = [2 ** 22 - 1, 2 ** 22] as const;
      const synchronous = tensor.toFloat32({ rows });
      expect([synchronous.length, ...synchronous.subarray(-3)]).toEqual([4096, 0, 5, 6]);
      expect([...(await tensor.toFloat32Async({ rows })).subarray(-2)]).toEqual([5, 6]);
      const last = [2 ** 22 - 2, 2 ** 22] as const;
      const found: number[] = [];
      for await (const block of tensor.rowBlocks({ rows: last, maxByteLength: 2 ** 14 })) {
        found.push(block.row, block.values.at(-1) as number);
      }
      expect(found).toEqual([2 ** 22 - 2, 0, 2 ** 22 - 1, 6]);
    }
  },
);

describe('of a view, whose bytes are computed', () => {
  const entries = [{ name: 't', dtype: 'F32', shape: [6, 5], bytes: scrambledBytes(120) }] as const;
  const TARGETS = ['F16', 'BF16', 'F8_E4M3'] as const;

  test.each(TARGETS)('%s: rows and blocks are those of the whole', async (dtype) => {
    const view = select(parse(fileBytes(entries)), { dtype });
    const used = view.getTensor('t');
    const { bytes } = used;
    const whole = parse(serialize({ t: { dtype, shape: [6, 5], data: bytes } }))
      .getTensor('t')
      .toFloat32();
    for (const tensor of [used, view.getTensor('t')]) {
      for (const rows of [
        [0, 6],
        [1, 2],
        [3, 6],
        [2, 2],
      ] as const) {
        const expected = bitsOf(whole.subarray(5 * rows[0], 5 * rows[1]));
        expect(bitsOf(tensor.toFloat32({ rows }))).toEqual(expected);
        expect(bitsOf(await tensor.toFloat32Async({ rows }))).toEqual(expected);
      }
      const found: number[] = [];
      for await (const { values } of tensor.rowBlocks({ maxByteLength: 40 })) {
        expect(values.length).toBe(10);
        found.push(...bitsOf(values));
      }
      expect(Uint32Array.from(found)).toEqual(bitsOf(whole));
    }
  });

  test('an abort ends the work between windows', async () => {
    const entry = { name: 't', dtype: 'BF16', shape: [3, 2 ** 18] } as const;
    const view = select(parse(fileBytes([entry])), { dtype: 'F32' });
    const controller = new AbortController();
    const reason = new Error('enough');
    const reports: number[] = [];
    let now = 0;
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => (now += 101));
    try {
      const into = new Float32Array(3 * 2 ** 18);
      const work = view.getTensor('t').toFloat32Async({
        into,
        signal: controller.signal,
        onProgress: ({ bytes }) => {
          reports.push(bytes);
          controller.abort(reason);
        },
      });
      await expect(work).rejects.toBe(reason);
      expect(reports).toEqual([4 * 2 ** 18]);
      expect(into.subarray(2 ** 18).every((value) => value === 0)).toBe(true);
    } finally {
      clock.mockRestore();
    }
  });
});

test('all rows of a file that is read are retained, and some rows are not', () => {
  const path = temporaryPath('read.safetensors');
  writeFileSync(path, fileBytes([{ name: 't', dtype: 'F16', shape: [4, 4] }]));
  using checkpoint = safeOpen(path, { storage: 'read' });
  const tensor = checkpoint.getTensor('t');
  tensor.toFloat32({ rows: [1, 3] });
  expect(TensorOf.sourceOf(tensor).isResolved).toBe(false);
  tensor.toFloat32();
  expect(TensorOf.sourceOf(tensor).isResolved).toBe(true);
});

test('rows whose bytes fit into no buffer are rejected before one is requested', () => {
  // Values of F64 need half of the bytes as float32: the result fits, and its source does not.
  const storage = new MemoryStorage(new Uint8Array(128), 100);
  const tensor = TensorOf.of('t', 'F64', [4, 4], new StorageRange(storage, 't', 0, 128));
  const error = expect.objectContaining({ code: 'SAFETENSORS_TENSOR_TOO_LARGE', tensor: 't' });
  expect(() => tensor.toFloat32()).toThrow(error);
  expect(() => tensor.toFloat32({ rows: [0, 4] })).toThrow(error);
  expect(tensor.toFloat32({ rows: [1, 4] })).toEqual(new Float32Array(12));
  expect(tensor.toFloat32({ rows: [4, 4] })).toEqual(new Float32Array(0));
});
