/** Products added to rows: the same bits from all kernels and from TypeScript, rounded once. */
import { describe, expect, it } from 'vitest';
import { addProductInTypeScript, paddedLength } from '../../src/merge/product.js';
import type { CastSource } from '../../src/tensor/float32/cast.js';
import type { ProductRows } from '../../src/tensor/float32/kernels.js';
import { Random } from '../support/random.js';
import { addon, bytesOf, ways } from '../tensor/float32/cast-tables.js';

const DTYPES: readonly CastSource[] = ['F64', 'F32', 'F16', 'BF16'];
const kernels = ways.filter((way) => way !== 'TypeScript');

/** Elements of F64, as bytes at some address, in any dtype. */
function elements(values: Float64Array, dtype: CastSource, byteOffset: number): Uint8Array {
  const length = values.length * bytesOf(dtype);
  const output = new Uint8Array(length + byteOffset).subarray(byteOffset);
  const none = { left: new Float64Array(0), right: new Float32Array(0) };
  const bytes = new Uint8Array(values.buffer);
  addProductInTypeScript({
    ...none,
    from: 'F64',
    to: dtype,
    bytes,
    output,
    columns: values.length,
  });
  return output;
}

/** Elements as numbers. */
function numbers(bytes: Uint8Array, dtype: CastSource): Float64Array {
  const output = new Uint8Array((bytes.length / bytesOf(dtype)) * 8);
  const none = {
    left: new Float64Array(0),
    right: new Float32Array(0),
    columns: output.length / 8,
  };
  addProductInTypeScript({ ...none, from: dtype, to: 'F64', bytes, output });
  return new Float64Array(output.buffer);
}

function factors(r: Random, rows: number, rank: number, columns: number) {
  const left = Float64Array.from({ length: rows * rank }, () => r.from(-999, 999) / 333);
  const right = new Float32Array(rank * paddedLength(columns));
  for (let k = 0; k < rank; k++) {
    for (let i = 0; i < columns; i++) right[k * paddedLength(columns) + i] = r.from(-99, 99) / 7;
  }
  return { left, right };
}

describe.each(kernels)('%s', (level) => {
  it.each(DTYPES)('%s: the bits of TypeScript, at any length and address', (from) => {
    const r = new Random(57, 1);
    for (const to of DTYPES) {
      for (const [rows, columns] of [
        [1, 1],
        [3, 7],
        [4, 8],
        [5, 9],
        [9, 255],
        [2, 256],
        [7, 300],
        [5, 1100],
      ] as const) {
        for (const rank of [0, 1, 4, 6]) {
          const values = Float64Array.from(
            { length: rows * columns },
            () => r.from(-99999, 99999) / 777,
          );
          for (const special of [Number.NaN, Infinity, -0, 1e-40, 65520, 1e39]) {
            if (r.chance(0.3)) values[r.from(0, values.length - 1)] = special;
          }
          const bytes = elements(values, from, r.from(0, 3));
          const [own, expected] = [0, 1].map(() => {
            const room = new Uint8Array(values.length * bytesOf(to) + 9).fill(77);
            return room.subarray(3, 3 + values.length * bytesOf(to));
          }) as [Uint8Array, Uint8Array];
          const given = { from, to, bytes, columns, ...factors(r, rows, rank, columns) };
          const count = addon.addProduct({ ...given, output: own }, level);
          expect(count).toBe(addProductInTypeScript({ ...given, output: expected }));
          expect(numbers(own, to)).toEqual(numbers(expected, to));
          for (const { buffer, byteOffset, byteLength } of [own, expected]) {
            const around = [
              ...new Uint8Array(buffer, 0, byteOffset),
              ...new Uint8Array(buffer, byteOffset + byteLength),
            ];
            expect(around).toEqual(new Array(9).fill(77));
          }
        }
      }
    }
  });

  it.each(DTYPES)('rounds sums of every size to %s once', (to) => {
    const values: number[] = [0, Number.NaN, Infinity];
    for (let exponent = -1074; exponent <= 1023; exponent++) {
      const power = 2 ** exponent;
      // Powers, their neighbours, what lies halfway between narrower numbers, and next to it.
      const steps = [-53, -52, -30, -25, -24, -23, -12, -11, -9, -8, -1];
      values.push(
        power,
        ...steps.flatMap((step) => [1 + 2 ** step, 1 - 2 ** step].map((f) => f * power)),
      );
      values.push((1 + 2 ** -24 + 2 ** -52) * power, (1 + 2 ** -9 + 2 ** -40) * power);
    }
    const bytes = new Uint8Array(
      Float64Array.from(values, (v, i) => (i % 3 === 0 ? -v : v)).buffer,
    );
    const none = { left: new Float64Array(0), right: new Float32Array(0) };
    const given = { ...none, from: 'F64' as const, to, bytes, columns: values.length };
    const [own, expected] = [0, 1].map(() => new Uint8Array(values.length * bytesOf(to))) as [
      Uint8Array,
      Uint8Array,
    ];
    const count = addon.addProduct({ ...given, output: own }, level);
    expect(count).toBe(addProductInTypeScript({ ...given, output: expected }));
    expect(numbers(own, to)).toEqual(numbers(expected, to));
  });

  it('changes sums in place', () => {
    const sums = Float64Array.of(1, 2, 3);
    const bytes = new Uint8Array(sums.buffer);
    const given = {
      left: Float64Array.of(2),
      right: Float32Array.of(1, 2, 3, 0, 0, 0, 0, 0),
      columns: 3,
    };
    expect(
      addon.addProduct({ from: 'F64', to: 'F64', bytes, output: bytes, ...given }, level),
    ).toBe(0);
    expect([...sums]).toEqual([3, 6, 9]);
  });
});

describe.each(ways)('%s', (way) => {
  const run = (rows: ProductRows): number =>
    way === 'TypeScript' ? addProductInTypeScript(rows) : addon.addProduct(rows, way);
  const rounded = (value: number, to: CastSource): [number, number] => {
    const output = new Uint8Array(bytesOf(to));
    const bytes = new Uint8Array(Float64Array.of(value).buffer);
    const none = { left: new Float64Array(0), right: new Float32Array(0) };
    const count = run({ ...none, from: 'F64', to, bytes, output, columns: 1 });
    return [numbers(output, to)[0] as number, count];
  };

  it.each([
    ['BF16', 2 ** -8, 2 ** -7],
    ['F16', 2 ** -11, 2 ** -10],
    ['F32', 2 ** -24, 2 ** -23],
  ] as const)('rounds once to %s', (to, half, unit) => {
    expect(rounded(1 + half, to)).toEqual([1, 0]);
    expect(rounded(1 + half + 2 ** -50, to)).toEqual([1 + unit, 0]);
    expect(rounded(-1 - half - 2 ** -50, to)).toEqual([-1 - unit, 0]);
    expect(rounded(1 + unit + half - 2 ** -50, to)).toEqual([1 + unit, 0]);
    expect(rounded(1 + unit + half, to)).toEqual([1 + 2 * unit, 0]);
  });

  it.each([
    ['BF16', 3.3895e38, 3.4e38],
    ['F16', 65519.999999999, 65520],
    ['F32', 3.4028235e38, 3.4028236e38],
  ] as const)('counts what is not finite in %s', (to, largest, tooLarge) => {
    expect(rounded(largest, to)[1]).toBe(0);
    expect(rounded(-tooLarge, to)).toEqual([-Infinity, 1]);
    expect(rounded(1e300, to)).toEqual([Infinity, 1]);
    expect(rounded(Infinity, to)).toEqual([Infinity, 1]);
    expect(rounded(Number.NaN, to)).toEqual([Number.NaN, 1]);
  });
});

describe('the kernel on the pool', () => {
  const given = {
    from: 'BF16',
    to: 'BF16',
    bytes: Uint8Array.of(0x80, 0x3f, 0, 0x40),
    left: Float64Array.of(1, 2),
    right: Float32Array.of(1, 0, 0, 0, 0, 0, 0, 0),
    columns: 1,
  } as const;

  it('has the same result', async () => {
    const output = new Uint8Array(4);
    expect(await addon.addProductAsync({ ...given, output })).toBe(0);
    expect([...numbers(output, 'BF16')]).toEqual([2, 4]);
  });

  it.each([
    ['from', { from: 'F8_E4M3' }],
    ['to', { to: 'I8', from: 'BF16' }],
    ['bytes', { bytes: new Uint8Array(3) }],
    ['bytes', { bytes: new Uint8Array(6), columns: 2 }],
    ['output', { output: new Uint8Array(2) }],
    ['left', { left: new Float64Array(3) }],
    ['right', { right: new Float32Array(7) }],
    ['columns', { columns: 0 }],
  ])('%s is checked', async (name, changes) => {
    const rows = { ...given, output: new Uint8Array(4), ...changes } as ProductRows;
    await expect(addon.addProductAsync(rows)).rejects.toThrow(name === 'to' ? 'from' : name);
  });
});
