/** Byte order, signs and conjugates of items. */
import { describe, expect, test } from 'vitest';
import { FormatError } from '../../src/errors/errors.js';
import { changeOf, type ValueChanges } from '../../src/foreign/value-changes.js';
import type { Dtype } from '../../src/header/dtype.js';

function changed<View extends ArrayBufferView<ArrayBuffer>>(
  dtype: Dtype,
  values: View,
  changes: ValueChanges,
): View {
  const change = changeOf(dtype, changes, {});
  if (change instanceof FormatError) throw change;
  change?.(new Uint8Array(values.buffer));
  return values;
}

describe('byte order', () => {
  test.each<[Dtype, number]>([
    ['F16', 2],
    ['BF16', 2],
    ['I32', 4],
    ['F64', 8],
    ['C64', 4],
  ])('of %s is swapped in units of %i bytes', (dtype, unit) => {
    const bytes = Uint8Array.from({ length: 16 }, (_, i) => i);
    const expected = Array.from(bytes, (_, i) => i - (i % unit) + (unit - 1 - (i % unit)));
    expect([...changed(dtype, bytes, { isBigEndian: true })]).toEqual(expected);
  });

  test('of single bytes needs no change', () => {
    for (const dtype of ['U8', 'BOOL', 'F8_E5M2', 'F4'] as const) {
      expect(changeOf(dtype, { isBigEndian: true }, {})).toBeUndefined();
    }
    expect(changeOf('F32', {}, {})).toBeUndefined();
  });
});

describe('signs', () => {
  test('of floats are flipped as bits: those of zeros and NaN too', () => {
    expect([...changed('F32', Float32Array.of(1, -2, 0, Infinity), { isNegative: true })]).toEqual([
      -1,
      2,
      -0,
      -Infinity,
    ]);
    expect([...changed('F64', Float64Array.of(1.5, -0), { isNegative: true })]).toEqual([-1.5, 0]);
    expect([...changed('BF16', Uint16Array.of(0x3f80, 0x7fc1), { isNegative: true })]).toEqual([
      0xbf80, 0xffc1,
    ]);
  });

  test('of integers wrap around', () => {
    expect([...changed('I8', Int8Array.of(1, -128, 0), { isNegative: true })]).toEqual([
      -1, -128, 0,
    ]);
    expect([...changed('I64', BigInt64Array.of(5n, -(2n ** 63n)), { isNegative: true })]).toEqual([
      -5n,
      -(2n ** 63n),
    ]);
    expect([...changed('I16', Int16Array.of(7), { isNegative: true })]).toEqual([-7]);
  });

  test('of complex numbers: both parts, or the imaginary one', () => {
    expect([...changed('C64', Float32Array.of(1, 2), { isNegative: true })]).toEqual([-1, -2]);
    expect([...changed('C64', Float32Array.of(1, 2), { isConjugate: true })]).toEqual([1, -2]);
    expect([
      ...changed('C64', Float32Array.of(1, 2), { isConjugate: true, isNegative: true }),
    ]).toEqual([-1, 2]);
  });

  test('after the bytes were swapped', () => {
    const bytes = Uint8Array.of(0x3f, 0x80, 0, 0);
    changed('F32', bytes, { isBigEndian: true, isNegative: true });
    expect(new Float32Array(bytes.buffer)[0]).toBe(-1);
  });

  test('are refused without values', () => {
    for (const [dtype, changes] of [
      ['BOOL', { isNegative: true }],
      ['F8_E4M3', { isNegative: true }],
      ['F32', { isConjugate: true }],
    ] as const) {
      const problem = changeOf(dtype, changes, {});
      expect(problem).toBeInstanceOf(FormatError);
      expect((problem as FormatError).message).toContain(dtype);
    }
  });
});
