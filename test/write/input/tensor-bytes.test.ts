import { createContext, runInContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import {
  bytesOfData,
  isDetached,
  isTensorBytes,
  type TensorBytes,
} from '../../../src/write/input/tensor-bytes.js';
import {
  DTYPES,
  type Dtype,
  fromFloat32,
  InvalidTensorError,
  parse,
  serialize,
} from '../../support/api.js';

const memory = Uint8Array.from({ length: 32 }, (_, i) => i).buffer;
const shared = new SharedArrayBuffer(32);
new Uint8Array(shared).set(new Uint8Array(memory));

function view(dtype: Dtype, data: unknown): Uint8Array {
  return bytesOfData({ name: 'x', dtype }, data);
}

const ARRAYS = [
  Int8Array,
  Uint8Array,
  Uint8ClampedArray,
  Int16Array,
  Uint16Array,
  Int32Array,
  Uint32Array,
  Float32Array,
  Float64Array,
  BigInt64Array,
  BigUint64Array,
];

describe('viewOf', () => {
  test('points from float32 values to the conversion', () => {
    expect(() => view('BF16', Float32Array.of(1))).toThrow(
      /found a Float32Array; fromFloat32\(values, 'BF16'\) converts$/,
    );
    expect(() => view('I32', Float32Array.of(1))).toThrow(/found a Float32Array$/);
  });

  test.each([
    ['F32', 'a Float32Array, or raw bytes as Uint8Array'],
    ['U8', 'a Uint8Array'],
  ] as const)('says what %s takes', (dtype, expected) => {
    expect(() => view(dtype, Int32Array.of(1))).toThrow(
      `expected the data of ${dtype} to be ${expected}, found a Int32Array`,
    );
  });

  test('points from nested arrays to a flat one', () => {
    expect(() => view('F32', [[1, 2]])).toThrow(/Float32Array\.from\(values\.flat\(Infinity\)\)/);
  });

  test.each(Object.keys(DTYPES) as Dtype[])(
    '%s takes its own typed array and raw bytes',
    (dtype) => {
      const fits = (name: string): boolean =>
        name === DTYPES[dtype].data.name ||
        name === 'Uint8Array' ||
        (dtype === 'U8' && name === 'Uint8ClampedArray');
      for (const type of ARRAYS) {
        const data = new type(memory, 8, 8 / type.BYTES_PER_ELEMENT);
        if (fits(type.name)) {
          const bytes = view(dtype, data);
          expect(bytes).toEqual(Uint8Array.of(8, 9, 10, 11, 12, 13, 14, 15));
          expect(bytes.buffer).toBe(memory);
        } else {
          expect(() => view(dtype, data)).toThrow(InvalidTensorError);
          expect(() => view(dtype, data)).toThrow(
            expect.objectContaining({
              code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
              tensor: 'x',
              message: expect.stringMatching(
                new RegExp(`expected the data of ${dtype} to be .*, found a ${type.name}(?:;|$)`),
              ),
            }),
          );
        }
      }
    },
  );

  test.each([
    ['a Buffer', Buffer.from(memory, 8, 8), memory],
    ['an ArrayBuffer', memory, memory],
    ['a SharedArrayBuffer', shared, shared],
    ['an array over shared memory', new Float32Array(shared, 8, 2), shared],
  ])('%s is not copied', (_, data, buffer) => {
    expect(view('F32', data).buffer).toBe(buffer);
    expect(view('F32', data).byteLength).toBe(data.byteLength);
  });

  test('arrays of another realm are accepted', () => {
    const context = createContext();
    for (const source of ['new Float32Array(2)', 'new ArrayBuffer(8)', 'new Uint8Array(8)']) {
      expect(view('F32', runInContext(source, context)).byteLength).toBe(8);
    }
    expect(() => view('F32', runInContext('new Float64Array(1)', context))).toThrow(/Float64Array/);
  });

  // Not in every runtime of the tests.
  const { Float16Array } = globalThis as { Float16Array?: new (length: number) => TensorBytes };
  test.skipIf(Float16Array === undefined)('F16 takes a Float16Array, BF16 does not', () => {
    const data = new (Float16Array as NonNullable<typeof Float16Array>)(4);
    expect(view('F16', data).byteLength).toBe(8);
    expect(() => view('BF16', data)).toThrow(/found a Float16Array/);
  });

  test('by its name, where the runtime has no Float16Array', () => {
    class Float16Array extends Uint16Array {
      override get [Symbol.toStringTag](): 'Uint16Array' {
        return 'Float16Array' as 'Uint16Array';
      }
    }
    expect(view('F16', new Float16Array(4)).byteLength).toBe(8);
    expect(() => view('BF16', new Float16Array(4))).toThrow(/found a Float16Array/);
  });

  test.each([
    [[1, 2]],
    ['text'],
    [undefined],
    [null],
    [8],
    [{ byteLength: 8 }],
    [new DataView(memory)],
    [() => memory],
  ])('%o is refused', (data) => {
    expect(isTensorBytes(data)).toBe(false);
    expect(() => view('F32', data)).toThrow(
      expect.objectContaining({
        name: 'TypeError',
        code: 'ERR_INVALID_ARG_TYPE',
        message: expect.stringMatching(/^the data of tensor "x" must be a typed array, an Array/),
      }),
    );
  });

  test.each([
    ['F32', [[0.5], [1]], 'Float32Array.from(values.flat(Infinity))'],
    ['U8', [1, 2], 'Uint8Array.from(values.flat(Infinity))'],
    ['I64', [1, 2], 'BigInt64Array.from(values.flat(Infinity), BigInt)'],
    ['BF16', [[0.5]], "fromFloat32(Float32Array.from(values.flat(Infinity)), 'BF16')"],
    ['F16', [0.5], "fromFloat32(Float32Array.from(values.flat(Infinity)), 'F16')"],
    ['F8_E4M3', [0.5], "fromFloat32(Float32Array.from(values.flat(Infinity)), 'F8_E4M3')"],
  ] as const)('numbers for %s lead to what makes the right bytes', (dtype, data, hint) => {
    expect(() => view(dtype, data)).toThrow(`SharedArrayBuffer, such as ${hint}, but is`);
    const values = data;
    const make = new Function('values', 'fromFloat32', `return ${hint}`);
    const bytes: TensorBytes = make(values, fromFloat32);
    const tensor = { dtype, shape: [values.flat().length], data: bytes };
    const saved = parse(serialize({ tensor })).getTensor('tensor');
    expect([...saved.toFloat32()]).toEqual(values.flat());
  });

  test('chunks in an array are not numbers', () => {
    expect(() => view('F32', [new Float32Array(1)])).toThrow(/SharedArrayBuffer, but is/);
  });

  test('a detached buffer has no bytes', () => {
    for (const type of [Float32Array, Uint8Array]) {
      const data = new type(8);
      structuredClone(data.buffer, { transfer: [data.buffer] });
      expect(view('F32', data).byteLength).toBe(0);
      expect(view('F32', data.buffer).byteLength).toBe(0);
      // Node 20 does not tell.
      const tells = 'detached' in ArrayBuffer.prototype;
      expect(isDetached(data)).toBe(tells);
      expect(isDetached(data.buffer)).toBe(tells);
    }
    expect(isDetached(new ArrayBuffer(0))).toBe(false);
    expect(isDetached(shared)).toBe(false);
  });

  test('does not follow a buffer that grows', () => {
    const Resizable = ArrayBuffer as unknown as new (
      length: number,
      options: object,
    ) => ArrayBuffer & { resize(length: number): void };
    const buffer = new Resizable(8, { maxByteLength: 16 });
    const bytes = view('F32', buffer);
    buffer.resize(16);
    expect(bytes.byteLength).toBe(8);
    buffer.resize(4);
    expect(bytes.byteLength).toBe(0);
  });
});
