/** Layouts from strangers: nothing is read before every number is checked. */
import { describe, expect, test } from 'vitest';
import { FormatError } from '../../../src/errors/errors.js';
import {
  checkLayout,
  type DeclaredLayout,
  isContiguous,
  type TensorLayout,
} from '../../../src/foreign/tensors/tensor-layout.js';

const CODE = 'SAFETENSORS_INVALID_TORCH_CHECKPOINT';

function check(given: Partial<DeclaredLayout>, held = 24, limits = {}): TensorLayout {
  const layout = { itemByteLength: 4, shape: [2, 3], strides: [3, 1], offset: 0, ...given };
  return checkLayout(layout, held, limits, CODE, { path: 'a.pt', tensor: 'w' });
}

function codeOf(given: Partial<DeclaredLayout>, held?: number, limits?: object): string {
  try {
    check(given, held, limits);
  } catch (error) {
    if (error instanceof FormatError) return error.code;
    throw error;
  }
  return 'none';
}

describe('a layout is refused', () => {
  test.each<[string, Partial<DeclaredLayout>]>([
    ['with a negative size', { shape: [-2, 3] }],
    ['with a negative stride', { strides: [-3, 1] }],
    ['with a negative offset', { offset: -1 }],
    ['with a fraction', { offset: 0.5 }],
    ['with more strides than dimensions', { strides: [3, 1, 1] }],
    ['that reaches one item too far', { offset: 1 }],
    ['that reaches far by a stride', { strides: [2n ** 62n, 1] }],
    ['of more items than 2^63', { shape: [2n ** 40n, 2n ** 40n], strides: [0, 0] }],
    ['of a dimension above 2^53', { shape: [2n ** 60n, 0], strides: [0, 0] }],
    ['of 65 dimensions', { shape: Array(65).fill(1), strides: Array(65).fill(1) }],
  ])('%s', (_, given) => {
    expect(codeOf(given)).toBe(CODE);
  });

  test('when it expands a few bytes to terabytes, or beyond the limit', () => {
    const expanded = { shape: [2 ** 40], strides: [0] };
    expect(codeOf(expanded)).toBe('SAFETENSORS_FOREIGN_LIMIT');
    expect(codeOf({ shape: [100_000], strides: [0] })).toBe('SAFETENSORS_FOREIGN_LIMIT');
    expect(codeOf({ shape: [10_000], strides: [0] })).toBe('none');
    expect(codeOf({}, 24, { maxTensorByteLength: 23 })).toBe('SAFETENSORS_FOREIGN_LIMIT');
    expect(() => check({}, 24, { maxTensorByteLength: 23 })).toThrow('a.pt: tensor "w": ');
  });
});

describe('a layout is accepted', () => {
  test('of no items, wherever it lies', () => {
    const layout = check({ shape: [2, 0], strides: [7, 9], offset: 10n ** 18n });
    expect(layout).toMatchObject({ byteLength: 0, offset: 0, shape: [2, 0] });
    expect(isContiguous(layout)).toBe(true);
  });

  test('with any stride of a dimension of one item', () => {
    const layout = check({ shape: [1, 6], strides: [2n ** 62n, 1n] });
    expect(layout.strides).toEqual([6, 1]);
    expect(isContiguous(layout)).toBe(true);
  });

  test('up to the last byte', () => {
    expect(check({ shape: [2, 2], strides: [1, 4], offset: 0 }, 24).byteLength).toBe(16);
    expect(isContiguous(check({ shape: [3, 2], strides: [1, 3] }))).toBe(false);
    expect(check({ shape: [], strides: [], offset: 5n }).offset).toBe(5);
  });
});
