import { constants } from 'node:buffer';
import fs, { closeSync, ftruncateSync, openSync, writeSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { describe, expect, test } from 'vitest';
import {
  type Checkpoint,
  DTYPES,
  type Dtype,
  parse,
  SafetensorsError,
  safeOpen,
  type Tensor,
} from '../support/api.js';
import { countedBytes, fileBytes, temporaryPath } from '../support/make-file.js';
import { type Opener, openers } from './openers.js';

const overBuffer: Opener = (...args) => parse(Buffer.from(fileBytes(...args)));

describe.each([...openers, ['memory', overBuffer] as const])('%s (%#)', (kind, open) => {
  test.each(Object.keys(DTYPES) as Dtype[])('%s: bytes and data are the bit patterns', (dtype) => {
    const tensor = open([{ name: 't', dtype, shape: [2, 4] }]).getTensor('t');
    const bytes = countedBytes(DTYPES[dtype].bits);
    expect(tensor).toMatchObject({
      name: 't',
      dtype,
      shape: [2, 4],
      elementCount: 8,
      byteLength: DTYPES[dtype].bits,
    });
    expect(tensor.bytes).toEqual(bytes);
    const Data = DTYPES[dtype].data;
    const length = bytes.length / Data.BYTES_PER_ELEMENT;
    expect(tensor.data).toEqual(new Data(bytes.buffer, 0, length));
    expect(tensor.toFloat32().length).toBe(dtype === 'C64' ? 16 : 8);
  });

  // A header of every length modulo 8 puts the data at every address modulo 8.
  test.each([0, 1, 2, 3, 4, 5, 6, 7])('any alignment: %i', (padding) => {
    const entry = { name: 't', dtype: 'F64', shape: [3] } as const;
    const tensor = open([entry], { padding }).getTensor('t');
    expect(tensor.data).toEqual(new Float64Array(countedBytes(24).buffer));
    const dataStart = fileBytes([entry], { padding }).length - 24;
    expect(tensor.isAligned).toBe(kind === 'read' || dataStart % 8 === 0);
  });

  test('the buffer and the data are the same objects on every call', () => {
    const file = open([{ name: 't', dtype: 'I16', shape: [3] }]);
    const tensor = file.getTensor('t');
    expect(file.getTensor('t')).toBe(tensor);
    expect(tensor.buffer).toBe(tensor.buffer);
    expect(tensor.data).toBe(tensor.data);
    expect(tensor.bytes.buffer).toBe(tensor.buffer);
  });

  test('empty tensors and scalars', () => {
    const file = open([
      { name: 'empty', dtype: 'F32', shape: [0, 3] },
      { name: 'scalar', dtype: 'F32', shape: [] },
    ]);
    const empty = file.getTensor('empty');
    expect(empty).toMatchObject({ elementCount: 0, byteLength: 0 });
    expect(empty.data).toEqual(new Float32Array(0));
    expect(empty.toFloat32()).toEqual(new Float32Array(0));
    expect([...empty.chunks()]).toEqual([]);
    expect(empty.slice([0, 0], 1).shape).toEqual([0]);
    const scalar = file.getTensor('scalar');
    expect(scalar).toMatchObject({ shape: [], elementCount: 1, byteLength: 4 });
    expect(scalar.slice().bytes).toEqual(scalar.bytes);
  });

  test('toFloat32 fills a given array and returns it', () => {
    const file = open([{ name: 't', dtype: 'C64', shape: [3] }], { padding: 1 });
    const tensor = file.getTensor('t');
    const room = new Float32Array(8).fill(7);
    const into = room.subarray(1, 7);
    expect(tensor.toFloat32({ into })).toBe(into);
    expect(into).toEqual(tensor.toFloat32());
    expect([room[0], room[7]]).toEqual([7, 7]);
    const shared = new Float32Array(new SharedArrayBuffer(24));
    expect([...tensor.toFloat32({ into: shared })]).toEqual([...into]);
    expect(() => tensor.toFloat32({ into: room })).toThrow(
      expect.objectContaining({ code: 'ERR_OUT_OF_RANGE', message: expect.stringMatching(/6.*8/) }),
    );
    expect(() => tensor.toFloat32({ into: new Float64Array(6) as never })).toThrow(
      expect.objectContaining({ code: 'ERR_INVALID_ARG_TYPE' }),
    );
  });

  test('view reads the same bytes otherwise', () => {
    const tensor = open([{ name: 't', dtype: 'F32', shape: [3] }], { padding: 1 }).getTensor('t');
    expect(tensor.view(Uint32Array)).toEqual(new Uint32Array(countedBytes(12).buffer));
    const halves = tensor.view(Uint16Array, { reinterpret: true });
    expect(halves).toEqual(new Uint16Array(countedBytes(12).buffer));
    expect(() => tensor.view(Float64Array, { reinterpret: true })).toThrow(RangeError);
    expect(() => tensor.view(DataView as never)).toThrow(TypeError);
    expect(() => tensor.view(undefined as never)).toThrow(TypeError);
  });

  test('a contiguous slice shares memory, others are copies', () => {
    const tensor = open([{ name: 't', dtype: 'U16', shape: [4, 3] }]).getTensor('t');
    tensor.buffer;
    const rows = tensor.slice([1, 3]);
    expect(rows).toMatchObject({ name: 't', shape: [2, 3], byteLength: 12 });
    expect(rows.buffer).toBe(tensor.buffer);
    expect(rows.byteOffset).toBe(tensor.byteOffset + 6);
    const column = tensor.slice(null, 1);
    expect(column.shape).toEqual([4]);
    expect(column.buffer).not.toBe(tensor.buffer);
    expect(Array.from(column.bytes)).toEqual([3, 4, 9, 10, 15, 16, 21, 22]);
    rows.bytes.fill(0);
    expect(tensor.bytes[6]).toBe(0);
    expect(rows.slice(0, [null, null, -1]).shape).toEqual([3]);
    expect(Array.from(tensor.slice(0, [null, null, -1]).bytes)).toEqual([5, 6, 3, 4, 1, 2]);
  });

  test('shapes are frozen: those of the file, of slices and of copies', () => {
    const tensor = open([{ name: 't', dtype: 'U8', shape: [4, 3] }]).getTensor('t');
    const made = [tensor, tensor.slice([1, 3]), tensor.slice(null, 1), tensor.copy()];
    for (const { shape } of [...made, tensor.take([0])]) expect(Object.isFrozen(shape)).toBe(true);
  });

  test.each<[string, (tensor: Tensor, options: object) => unknown]>([
    ['view', (tensor, options) => tensor.view(Uint8Array, options)],
    ['toFloat32', (tensor, options) => tensor.toFloat32(options)],
    ['toFloat32Async', (tensor, options) => tensor.toFloat32Async(options)],
    ['take', (tensor, options) => tensor.take([0], options)],
    ['takeAsync', (tensor, options) => tensor.takeAsync([0], options)],
    ['takeFloat32', (tensor, options) => tensor.takeFloat32([0], options)],
    ['takeFloat32Async', (tensor, options) => tensor.takeFloat32Async([0], options)],
    ['chunks', (tensor, options) => [...tensor.chunks(options)]],
  ])('%s takes no option that it does not know', async (_, use) => {
    const tensor = open([{ name: 't', dtype: 'U8', shape: [4] }]).getTensor('t');
    await expect((async () => use(tensor, { other: 1 }))()).rejects.toMatchObject({
      code: 'ERR_INVALID_ARG_VALUE',
      message: expect.stringContaining('unknown option "other"'),
    });
  });

  test('as gives the tensor itself, or throws what it is', () => {
    const file = open([{ name: 't', dtype: 'BF16', shape: [4] }]);
    const tensor = file.getTensor('t');
    expect(tensor.expectDtype('BF16')).toBe(tensor);
    const path = kind === 'memory' ? undefined : file.path;
    expect(() => tensor.expectDtype('F32')).toThrow(
      expect.objectContaining({
        name: 'SafetensorsError',
        code: 'SAFETENSORS_DTYPE_MISMATCH',
        message: `${path === undefined ? '' : `${path}: `}tensor "t": expected dtype F32, found BF16`,
        tensor: 't',
        ...(path !== undefined && { path }),
      }),
    );
    expect(() => tensor.expectDtype('F32')).toThrow(SafetensorsError);
    expect(() => tensor.expectDtype('float32' as never)).toThrow(
      'dtype must be \'F32\', but is "float32"',
    );
    for (const wrong of [undefined, 32]) {
      expect(() => tensor.expectDtype(wrong as never)).toThrow('dtype must be a string');
    }
    for (const wrong of ['float32', 'bf16', 'toString', 'x']) {
      expect(() => tensor.expectDtype(wrong as never)).toThrow(
        expect.objectContaining({ name: 'RangeError', code: 'ERR_OUT_OF_RANGE' }),
      );
    }
  });

  test('slices before the tensor was read', () => {
    const file = open([{ name: 't', dtype: 'U8', shape: [4, 4] }]);
    expect(Array.from(file.getSlice('t', [1, 2]).bytes)).toEqual([5, 6, 7, 8]);
    expect(Array.from(file.getSlice('t', '...', -1).bytes)).toEqual([4, 8, 12, 16]);
  });

  test('slice errors name the file and the tensor', () => {
    const file = open([{ name: 't', dtype: 'F4', shape: [2, 4] }]);
    const tensor = file.getTensor('t');
    const about = { ...(kind !== 'memory' && { path: file.path }), tensor: 't' };
    expect(() => tensor.slice(2)).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_SLICE_OUT_OF_RANGE', ...about }),
    );
    expect(() => tensor.slice(0, 0, 0)).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_TOO_MANY_INDICES', ...about }),
    );
    expect(() => tensor.slice(0, [1, 3])).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_MISALIGNED_SLICE', ...about }),
    );
    expect(Array.from(tensor.slice(null, [2, 4]).bytes)).toEqual([2, 4]);
  });

  test('chunks are cut on rows, else on elements', () => {
    const tensor = open([{ name: 't', dtype: 'U16', shape: [5, 3] }]).getTensor('t');
    const lengths = (maxByteLength: number): number[] =>
      Array.from(tensor.chunks({ maxByteLength }), (chunk) => chunk.byteLength);
    expect(lengths(30)).toEqual([30]);
    expect(lengths(13)).toEqual([12, 12, 6]);
    expect(lengths(10)).toEqual([6, 6, 6, 6, 6]);
    expect(lengths(5)).toEqual([4, 4, 4, 4, 4, 4, 4, 2]);
    expect(() => lengths(1)).toThrow(RangeError);
    expect(() => lengths(1.5)).toThrow(TypeError);
    expect(() => [...tensor.slice([0, 0]).chunks({ maxByteLength: 0 })]).toThrow(
      'maxByteLength must be at least 1 bytes, but is 0',
    );
    for (const chunk of tensor.chunks({ maxByteLength: 7 })) {
      expect(chunk.constructor).toBe(Uint8Array);
    }
    const joined = Array.from(tensor.chunks({ maxByteLength: 7 }), (chunk) => [...chunk]).flat();
    expect(joined).toEqual([...countedBytes(30)]);
  });

  test('chunks of packed elements end on whole bytes', () => {
    const file = open([
      { name: 'f4', dtype: 'F4', shape: [1, 6] },
      { name: 'f6', dtype: 'F6_E2M3', shape: [2, 6] },
    ]);
    const lengths = (name: string, maxByteLength: number): number[] =>
      Array.from(file.getTensor(name).chunks({ maxByteLength }), (chunk) => chunk.byteLength);
    expect(lengths('f4', 1)).toEqual([1, 1, 1]);
    expect(lengths('f6', 5)).toEqual([3, 3, 3]);
  });

  test('tensors stay after close, whether they were used before or not', () => {
    const file = open([
      { name: 'used', dtype: 'U8', shape: [2] },
      { name: 'unused', dtype: 'U8', shape: [2] },
    ]);
    const used = file.getTensor('used');
    const unused = file.getTensor('unused');
    used.buffer;
    file.close();
    expect(Array.from(used.bytes)).toEqual([1, 2]);
    expect(Array.from(used.slice([1, 2]).bytes)).toEqual([2]);
    expect([...used.chunks()]).toEqual([used.bytes]);
    expect(Array.from(unused.slice([1, 2]).bytes)).toEqual([2]);
    expect([...unused.chunks()]).toEqual([unused.bytes]);
    expect(Array.from(unused.bytes)).toEqual([1, 2]);
    expect(unused.bytes.buffer).toBe(unused.buffer);
    expect(unused.shape).toEqual([2]);
  });
});

describe('above the runtime’s limit for buffers', () => {
  const byteLength = 4 * 2 ** 30 + 2 ** 20;
  const tooLarge = byteLength > constants.MAX_LENGTH;

  // A sparse file: 4 GiB and one row more of zeros, with marks in the first, a middle and the last row.
  function openSparse(storage: 'mmap' | 'read'): Checkpoint {
    const path = temporaryPath('large.safetensors');
    const shape = [byteLength / 2 ** 20, 2 ** 20];
    const json = JSON.stringify({ t: { dtype: 'U8', shape, data_offsets: [0, byteLength] } });
    const fd = openSync(path, 'w');
    const prefix = Buffer.alloc(8);
    prefix.writeBigUInt64LE(BigInt(json.length));
    const dataStart = 8 + json.length;
    writeSync(fd, Buffer.concat([prefix, Buffer.from(json)]));
    for (const [position, value] of [
      [0, 1],
      [2 ** 31 + 5, 2],
      [byteLength - 1, 3],
    ] as const) {
      writeSync(fd, Buffer.of(value), 0, 1, dataStart + position);
    }
    ftruncateSync(fd, dataStart + byteLength);
    closeSync(fd);
    return safeOpen(path, { storage });
  }

  function replaceReads(readSync: typeof fs.readSync): void {
    fs.readSync = readSync;
    syncBuiltinESMExports();
  }

  test('slices reach every part', () => {
    for (const storage of ['mmap', 'read'] as const) {
      using file = openSparse(storage);
      expect(file.getSlice('t', 0, [0, 2]).bytes).toEqual(Uint8Array.of(1, 0));
      expect(file.getSlice('t', 2048, [4, 7]).bytes).toEqual(Uint8Array.of(0, 2, 0));
      expect(file.getSlice('t', -1, [-2, null]).bytes).toEqual(Uint8Array.of(0, 3));
      expect(file.getSlice('t', [0, null, 2048], [0, 6, 5]).bytes).toEqual(
        Uint8Array.of(1, 0, 0, 2, 0, 0),
      );
    }
  });

  test('chunks cover it in order', () => {
    using file = openSparse('mmap');
    const marks: number[] = [];
    let length = 0;
    for (const chunk of file.getTensor('t').chunks()) {
      length += chunk.byteLength;
      expect(chunk.byteLength).toBeLessThanOrEqual(2 ** 30);
      marks.push(chunk[0] as number, chunk[5] as number, chunk.at(-1) as number);
    }
    expect(length).toBe(byteLength);
    expect(marks).toEqual([1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 3]);
  });

  test('a chunk is never longer than a buffer can be', ({ onTestFinished }) => {
    const { readSync } = fs;
    onTestFinished(() => replaceReads(readSync));
    for (const storage of ['mmap', 'read'] as const) {
      replaceReads(readSync);
      using file = openSparse(storage);
      // To read 4 GiB of zeros into new memory takes ten seconds.
      replaceReads(((_fd, _buffer, _at, length: number) => length) as typeof readSync);
      const { value } = file
        .getTensor('t')
        .chunks({ maxByteLength: 2 ** 40 })
        .next();
      expect(value?.byteLength).toBe(Math.min(byteLength, constants.MAX_LENGTH));
    }
  });

  test.runIf(tooLarge)('one buffer is refused and says what to use', () => {
    using file = openSparse('mmap');
    const tensor = file.getTensor('t');
    for (const use of [() => tensor.buffer, () => tensor.data, () => tensor.toFloat32()]) {
      expect(use).toThrow(
        expect.objectContaining({
          code: 'SAFETENSORS_TENSOR_TOO_LARGE',
          tensor: 't',
          message: expect.stringContaining('chunks()'),
        }),
      );
    }
  });

  test.skipIf(tooLarge)('one buffer holds it where the runtime allows', () => {
    using file = openSparse('mmap');
    expect(file.getTensor('t').bytes.at(-1)).toBe(3);
  });
});
