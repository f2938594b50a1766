import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { elementCountOf, readSpec, tensorByteLength } from '../../src/header/tensor-spec.js';
import { DTYPES, type Dtype, InvalidTensorError } from '../support/api.js';

function lengthOf(dtype: unknown, shape: unknown): number {
  return readSpec('x', { dtype: dtype as Dtype, shape: shape as number[] }).byteLength;
}

function expectRefused(dtype: unknown, shape: unknown, message: string | RegExp): void {
  expect(() => lengthOf(dtype, shape)).toThrow(InvalidTensorError);
  expect(() => lengthOf(dtype, shape)).toThrow(
    expect.objectContaining({
      code: 'SAFETENSORS_INVALID_TENSOR_VIEW',
      tensor: 'x',
      message: expect.stringMatching(message),
    }),
  );
}

/** Their product is 2^64 - 1. */
const FACTORS = [3, 5, 17, 257, 641, 65_537, 6_700_417];

describe('the length in bytes', () => {
  test('is the product of the shape in bits, by eight', () => {
    const dimension = fc.oneof(fc.nat(9), fc.nat(2 ** 20));
    fc.assert(
      fc.property(
        fc.constantFrom(...(Object.keys(DTYPES) as Dtype[])),
        fc.array(dimension, { maxLength: 5 }),
        (dtype, shape) => {
          // As the reader multiplies: from the left, and nothing behind a zero counts.
          const zero = shape.indexOf(0);
          const factors = zero === -1 ? shape : shape.slice(0, zero);
          const product = factors.reduce((count, each) => count * BigInt(each), 1n);
          const elements = zero === -1 || product >= 2n ** 64n ? product : 0n;
          const bits = elements * BigInt(DTYPES[dtype].bits);
          if (bits >= 2n ** 64n) expectRefused(dtype, shape, /below 2\^64 bits/);
          else if (bits % 8n !== 0n) expectRefused(dtype, shape, /whole bytes/);
          else if (bits / 8n >= 2n ** 53n) expectRefused(dtype, shape, /at most 2\^53 - 1 bytes/);
          else expect(lengthOf(dtype, shape)).toBe(Number(bits / 8n));
        },
      ),
      { numRuns: 2000 },
    );
  });

  test.each([
    ['U8', [Number.MAX_SAFE_INTEGER], Number.MAX_SAFE_INTEGER],
    ['F4', [Number.MAX_SAFE_INTEGER - 1], (Number.MAX_SAFE_INTEGER - 1) / 2],
    ['U64', [2 ** 50 - 1], 2 ** 53 - 8],
    ['U8', [2 ** 32, 2 ** 31, 0], 0],
    ['F32', [0, ...Array(40).fill(2 ** 52)], 0],
    ['F32', Array(1000).fill(1), 4],
    ['U8', [...FACTORS, 0], 0],
  ])('%s of shape %j', (dtype, shape, expected) => {
    expect(lengthOf(dtype, shape)).toBe(expected);
  });

  test.each([
    ['U64', [2 ** 50], /at most 2\^53 - 1 bytes, found 9007199254740992/],
    ['U8', [2 ** 32, 2 ** 32, 0], /the product of the dimensions is larger/],
    ['U8', Array(40).fill(2 ** 52), /the product of the dimensions is larger/],
    ['U8', [...Array(40).fill(2 ** 52), 0], /the product of the dimensions is larger/],
    ['U64', [2 ** 32, 2 ** 30], /4611686018427387904 elements of U64 take/],
    ['F4', [3], /whole bytes, but 3 elements of F4 take 12 bits/],
    ['F4', [], /whole bytes, but 1 elements of F4 take 4 bits/],
    ['F6_E2M3', [2, 1], /whole bytes, but 2 elements of F6_E2M3 take 12 bits/],
    ['F4', [Number.MAX_SAFE_INTEGER], /whole bytes/],
    ['U8', FACTORS, /18446744073709551615 elements of U8 take/],
    ['U8', [...FACTORS, 2], /the product of the dimensions is larger/],
  ])('%s of shape %j is refused', (dtype, shape, message) => {
    expectRefused(dtype, shape, message);
  });

  test.each([
    [-1],
    [1.5],
    [Number.NaN],
    [Number.POSITIVE_INFINITY],
    [2 ** 53],
    ['2'],
    [2n],
    [null],
    [undefined],
  ])('%s is no dimension', (dimension) => {
    expectRefused('F32', [2, dimension], /from 0 to 2\^53 - 1, found .+ as dimension 1$/);
  });

  test('a hole is no dimension', () => {
    expectRefused('F32', Array(5), /found undefined as dimension 0/);
  });

  test.each([[undefined], [3], ['2,2'], [{ length: 1, 0: 1 }], [new Uint32Array([2, 2])]])(
    '%o is no shape',
    (shape) => {
      expectRefused('F32', shape, /expected the shape to be an array, found(?!.*dims)/);
    },
  );

  test.each([
    ['f32'],
    ['F33'],
    ['toString'],
    ['__proto__'],
    [''],
    [undefined],
    [null],
    [17],
    [['F32']],
  ])('%o is no dtype', (dtype) => {
    expectRefused(
      dtype,
      [2],
      /expected the dtype to be one of BOOL, F4, .*, U64, found(?!.*undefined here)/,
    );
  });
});

describe('readSpec', () => {
  test('has a shape of its own, and the length of that one', () => {
    const shape = [2, 3];
    const spec = readSpec('x', { dtype: 'F32', shape });
    shape[0] = 9;
    expect(spec).toEqual({ name: 'x', dtype: 'F32', shape: [2, 3], byteLength: 24 });
    expect(spec.shape).toSatisfy(Object.isFrozen);
    let reads = 0;
    const growing = Object.defineProperty([0], 0, { get: () => ++reads });
    const { shape: taken, byteLength } = readSpec('x', { dtype: 'U8', shape: growing });
    expect(taken).toEqual([byteLength]);
  });

  test('refuses billions of holes at the first', () => {
    const shape = new Array(2 ** 32 - 1);
    expect(() => readSpec('x', { dtype: 'U8', shape })).toThrow(/found undefined as dimension 0/);
  });
});

test.each([
  ['F32', [], 1, 4],
  ['F4', [2, 3], 6, 3],
  ['F6_E2M3', [4], 4, 3],
  ['C64', [2, 3, 5], 30, 240],
  ['BOOL', [7, 0], 0, 0],
] as const)(
  '%s of shape %j in a valid file has %i elements, %i bytes',
  (dtype, shape, count, byteLength) => {
    expect(elementCountOf(shape)).toBe(count);
    expect(tensorByteLength({ dtype, shape })).toBe(byteLength);
  },
);
