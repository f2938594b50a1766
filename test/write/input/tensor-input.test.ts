import { describe, expect, test } from 'vitest';
import { ComputedStorage } from '../../../src/tensor/storage/computed.js';
import type { LeasableStorage, Storage } from '../../../src/tensor/storage/storage.js';
import { StorageRange } from '../../../src/tensor/storage-range.js';
import { TensorOf } from '../../../src/tensor/tensor.js';
import {
  computedPayload,
  type MemoryPayload,
  memoryEntries,
  readTensorsAndStreams,
  type TensorInput,
} from '../../../src/write/input/tensor-input.js';
import { viewed } from '../../foreign/storages.js';
import { thrownBy } from '../../header/header-files.js';
import { type Dtype, InvalidTensorError, parse, safeOpen, serialize } from '../../support/api.js';
import { countedBytes, fileBytes, writeTemporary } from '../../support/make-file.js';

function payloadOf(tensor: TensorInput<Dtype, never>) {
  const [entry] = memoryEntries({ x: tensor });
  return entry?.payload as NonNullable<typeof entry>['payload'];
}

describe('new tensors', () => {
  test('are views of the given memory, read when they are written', () => {
    const data = new Float32Array([1, 2, 3, 4]);
    const shape = [2, 2];
    const [entry] = memoryEntries([['x', { dtype: 'F32', shape, data }]]);
    expect(entry).toMatchObject({ name: 'x', dtype: 'F32', shape: [2, 2], byteLength: 16 });
    shape[0] = 9;
    data[0] = 5;
    expect(entry?.shape).toEqual([2, 2]);
    const payload = entry?.payload as MemoryPayload;
    expect(payload.window(0, 4)).toEqual(new Uint8Array(new Float32Array([5]).buffer));
    expect(payload.window(4, 16).buffer).toBe(data.buffer);
  });

  test.each([
    ['too short', new Uint8Array(15)],
    ['too long', new Uint8Array(17)],
    ['a longer array', new Float32Array(5)],
    ['a buffer', new ArrayBuffer(20)],
  ])('%s is refused', (_, data) => {
    const error = thrownBy(() => memoryEntries({ x: { dtype: 'F32', shape: [2, 2], data } }));
    expect(error).toBeInstanceOf(InvalidTensorError);
    expect(error).toMatchObject({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      tensor: 'x',
      message: `tensor "x": expected 16 bytes for F32 of shape [2, 2], found ${data.byteLength}`,
    });
  });

  test('a buffer that was detached before is refused', () => {
    const data = new Float32Array(4);
    structuredClone(data.buffer, { transfer: [data.buffer] });
    for (const given of [data, data.buffer]) {
      expect(() => memoryEntries({ x: { dtype: 'F32', shape: [2, 2], data: given } })).toThrow(
        expect.objectContaining({
          code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
          message: expect.stringContaining('its buffer was transferred or resized'),
        }),
      );
    }
    // Without bytes only runtimes that tell can know.
    const empty = { dtype: 'F32', shape: [0], data } as const;
    if (!('detached' in data.buffer)) {
      expect(memoryEntries({ empty })[0]?.byteLength).toBe(0);
      Object.defineProperty(data.buffer, 'detached', { value: true });
    }
    expect(() => memoryEntries({ empty })).toThrow(InvalidTensorError);
  });

  test('a buffer that is detached later is noticed when it is written', () => {
    const data = new Float32Array(4);
    const payload = payloadOf({ dtype: 'F32', shape: [2, 2], data }) as MemoryPayload;
    structuredClone(data.buffer, { transfer: [data.buffer] });
    expect(() => payload.window(0, 16)).toThrow(
      expect.objectContaining({ code: 'SAFETENSORS_INVALID_TENSOR_VIEW', tensor: 'x' }),
    );
  });

  test('an array whose buffer grows or shrinks later has its first bytes, or too few', () => {
    const Resizable = ArrayBuffer as unknown as new (
      length: number,
      options: object,
    ) => ArrayBuffer & { resize(length: number): void };
    const buffer = new Resizable(16, { maxByteLength: 32 });
    const data = new Uint8Array(buffer);
    data.set(countedBytes(16));
    for (const given of [data, buffer]) {
      const payload = payloadOf({ dtype: 'U8', shape: [16], data: given }) as MemoryPayload;
      buffer.resize(32);
      payload.verify();
      expect(payload.window(0, 16)).toEqual(countedBytes(16));
      expect(payload.window(3, 16)).toEqual(countedBytes(16).subarray(3));
      buffer.resize(15);
      const code = 'SAFETENSORS_INVALID_TENSOR_VIEW';
      expect(() => payload.verify()).toThrow(expect.objectContaining({ code }));
      expect(() => payload.window(0, 4)).toThrow(expect.objectContaining({ code }));
      buffer.resize(16);
      data.set(countedBytes(16));
    }
  });

  test.each([[undefined], [null], [3], ['x'], [() => 1]])('%o is no tensor', (value) => {
    expect(() => memoryEntries({ x: value as never })).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_ARG_TYPE',
        message: expect.stringMatching(/^tensor "x" must be a Tensor or { dtype, shape, data }/),
      }),
    );
  });

  test('a typed array is not a tensor: it has no dtype', () => {
    expect(() => memoryEntries({ x: new Uint8Array(3) as never })).toThrow(
      /tensor "x" must be a Tensor or { dtype, shape, data }, but is an instance of Uint8Array/,
    );
  });
});

describe('tensors', () => {
  const values = countedBytes(12);

  test('of parsed bytes are views of them, in pieces too', () => {
    const bytes = serialize({ b: { dtype: 'U8', shape: [12], data: values } });
    const tensor = parse(bytes).getTensor('b').slice([2, null]);
    const payload = payloadOf(tensor) as MemoryPayload;
    expect(payload.window(3, 7)).toEqual(Uint8Array.of(6, 7, 8, 9));
    expect(payload.window(0, 10).buffer).toBe(bytes.buffer);
  });

  // Shorter and longer than what is before it in the file.
  test.each([12, 1000])(
    'of %i bytes that were transferred are refused, before and while they are written',
    (byteLength) => {
      const data = countedBytes(byteLength);
      const bytes = serialize({ b: { dtype: 'U8', shape: [byteLength], data } });
      const tensor = parse(bytes).getTensor('b');
      const payload = payloadOf(tensor) as MemoryPayload;
      structuredClone(bytes.buffer, { transfer: [bytes.buffer] });
      const gone = expect.objectContaining({
        code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
        tensor: 'x',
        message: expect.stringContaining('its buffer was transferred or resized'),
      });
      expect(() => payload.window(0, byteLength)).toThrow(gone);
      expect(() => payloadOf(tensor)).toThrow(gone);
    },
  );

  test('whose bytes are made are asked for one byte at first, and then for those of each piece', () => {
    const asked: [position: number, byteLength: number][] = [];
    const source = viewed(new Uint8Array(64));
    const storage = new ComputedStorage(64, source, (target, position) => {
      asked.push([position, target.length]);
      target.set(countedBytes(64).subarray(position, position + target.length));
    });
    const tensor = TensorOf.of('t', 'U8', [40], new StorageRange(storage, 't', 8, 48), 4);
    const payload = payloadOf(tensor) as MemoryPayload;
    expect(asked).toEqual([[12, 1]]);
    asked.length = 0;
    expect(payload.window(2, 5)).toEqual(Uint8Array.of(15, 16, 17));
    expect(asked).toEqual([[14, 3]]);
  });

  test('that are made name the file behind them, if there is one', () => {
    const made = (storage: Storage): Storage =>
      new ComputedStorage(4, { storage, begin: 0, byteLength: 4 }, () => {});
    const memory = viewed(new Uint8Array(4)).storage;
    expect(computedPayload(made(made(memory)), () => {}).storage).toBeUndefined();
    using file = safeOpen(writeTemporary([{ name: 'b', dtype: 'U8', shape: [3] }]));
    const { mappedFile } = TensorOf.sourceOf(file.getTensor('b'));
    expect(mappedFile).toBeDefined();
    const lending = mappedFile as LeasableStorage;
    expect(computedPayload(made(made(lending)), () => {}).storage).toBe(lending);
  });
});

describe('streams', () => {
  const stream = (): Uint8Array => new Uint8Array(4);
  async function* generator(): AsyncGenerator<Uint8Array> {
    yield new Uint8Array(4);
  }

  test.each([
    ['a function', stream],
    ['an async iterable', generator()],
  ])('%s is a TypeError where all has to be in memory', (_, data) => {
    expect(() => serialize({ x: { dtype: 'U8', shape: [4], data: data as never } })).toThrow(
      expect.objectContaining({
        name: 'TypeError',
        code: 'ERR_INVALID_ARG_TYPE',
        message: expect.stringMatching(/^the data of tensor "x" must be a typed array/),
      }),
    );
  });

  test('are opened when they are read, and checked against the shape', async () => {
    let calls = 0;
    const data = (): Uint8Array => {
      calls++;
      return new Uint8Array(5);
    };
    const [entry] = readTensorsAndStreams({ x: { dtype: 'U8', shape: [4], data } });
    expect(calls).toBe(0);
    if (entry?.payload.kind !== 'stream') return expect.fail('not a stream');
    await expect(entry.payload.open().next()).rejects.toThrow(/expected 4 bytes from its stream/);
    expect(calls).toBe(1);
  });

  test('beside memory and tensors', () => {
    const file = parse(fileBytes([{ name: 'b', dtype: 'U8', shape: [3] }]));
    const found = readTensorsAndStreams([
      ['s', { dtype: 'U8', shape: [4], data: stream }],
      ['m', { dtype: 'U8', shape: [4], data: new Uint8Array(4) }],
      ['t', file.getTensor('b')],
    ]);
    expect(found.map(({ payload }) => payload.kind)).toEqual(['stream', 'memory', 'memory']);
  });

  test('have a dtype and a shape', () => {
    const data = stream;
    const wrong = { dtype: 'U8', shape: [-1], data } as const;
    expect(() => readTensorsAndStreams({ wrong })).toThrow(InvalidTensorError);
  });

  test('undefined may be the property of a Map', () => {
    expect(() => memoryEntries({ x: undefined as never })).toThrow(
      /but is undefined; a Map gives its values by get\(name\)$/,
    );
  });
});
