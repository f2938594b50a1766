/** Statistics and differences of doubles of any size, against exact arithmetic with integers. */
import process from 'node:process';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compareTensors, parse, serialize, statistics, type Tensor } from '../../support/api.js';

const SEED = Number(process.env['SAFETENSORS_SEED'] ?? 20261128);

/** Every double is a multiple of the least one, 2^-1074. */
const LEAST_EXPONENT = -1074;

/** A finite double as a multiple of 2^-1074. */
function exact(value: number): bigint {
  const bits = new DataView(new ArrayBuffer(8));
  bits.setFloat64(0, value);
  const high = bits.getUint32(0);
  const exponent = (high >>> 20) & 0x7ff;
  const fraction = (BigInt(high & 0xfffff) << 32n) | BigInt(bits.getUint32(4));
  const magnitude = exponent === 0 ? fraction : (fraction | (1n << 52n)) << BigInt(exponent - 1);
  return value < 0 ? -magnitude : magnitude;
}

function bitLength(value: bigint): number {
  return (value < 0n ? -value : value).toString(2).length;
}

function rootOf(value: bigint): bigint {
  if (value < 2n) return value;
  let root = 1n << BigInt(Math.ceil(bitLength(value) / 2));
  for (;;) {
    const next = (root + value / root) >> 1n;
    if (next >= root) return root;
    root = next;
  }
}

/** The double nearest to `numerator / denominator * 2^exponent`, to some bits more than 60. */
function double(numerator: bigint, denominator: bigint, exponent = 0): number {
  const shift = Math.max(0, 64 + bitLength(denominator) - bitLength(numerator));
  let quotient = (numerator << BigInt(shift)) / denominator;
  let power = exponent - shift;
  const extra = Math.max(0, bitLength(quotient) - 64);
  quotient >>= BigInt(extra);
  power += extra;
  const half = Math.trunc(power / 2);
  return Number(quotient) * 2 ** half * 2 ** (power - half);
}

/** The root of a fraction. */
function root(numerator: bigint, denominator: bigint, exponent = 0): number {
  const shift = BigInt(2 * Math.max(0, 80 + bitLength(denominator) - bitLength(numerator)));
  const found = rootOf((numerator << shift) / denominator);
  return double(found, 1n << (shift / 2n), exponent);
}

const sum = (values: readonly bigint[]): bigint => values.reduce((total, one) => total + one, 0n);

const EDGES: readonly number[] = [
  ...[Number.MAX_VALUE, Number.MIN_VALUE, 2 ** -1022, 2 ** 512, 2 ** -537, 2 ** 400, 2 ** -300],
  ...[1, 1 + Number.EPSILON, 3 * Number.MIN_VALUE, 2 ** 1023, 2 ** -1073, 1e154, 1e-162, 0],
];
const edge = fc
  .tuple(fc.constantFrom(...EDGES), fc.boolean())
  .map(([x, isNegative]) => (isNegative ? -x : x));
const any = fc
  .tuple(fc.double({ min: -2, max: 2, noNaN: true }), fc.integer({ min: -1074, max: 1022 }))
  .map(([fraction, exponent]) => fraction * 2 ** exponent);
/** Values near one magnitude, or of all. */
const alike = fc.integer({ min: -1074, max: 1022 }).chain((exponent) =>
  fc.array(
    fc.double({ min: -2, max: 2, noNaN: true }).map((fraction) => fraction * 2 ** exponent),
    { maxLength: 12 },
  ),
);
const values = fc.oneof(alike, fc.array(fc.oneof(edge, any), { maxLength: 12 }), fc.array(edge));
const beside = fc.constantFrom(
  [],
  [Number.NaN],
  [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY],
);

/** Whether a result is as exact as sums of doubles are: relative to itself, or to the values that were added. */
function expectNear(found: number | null, expected: number, added = 0): void {
  const limit = 1e-12 * Math.abs(expected) + 1e-14 * added + 2 * Number.MIN_VALUE;
  const isNear = found === expected || Math.abs((found as number) - expected) <= limit;
  if (!isNear) expect(found).toBe(expected);
}

describe('statistics of doubles of any size', () => {
  it('have the exact mean and deviation, up to rounding', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(values, { maxLength: 4 }), beside, async (windows, others) => {
        const found = await statistics([...windows, others], 'F64');
        const all = windows.flat();
        if (all.length === 0) return;
        const integers = all.map(exact);
        const count = BigInt(all.length);
        const total = sum(integers);
        const greatest = Math.max(...all.map(Math.abs));
        expectNear(found.mean, double(total, count, LEAST_EXPONENT), greatest);
        const squares = count * sum(integers.map((one) => one * one)) - total * total;
        expectNear(found.std, root(squares, count * count, LEAST_EXPONENT), greatest);
      }),
      { seed: SEED, numRuns: 2000 },
    );
  });

  it.each([
    [[Number.MAX_VALUE, Number.MAX_VALUE, Number.MAX_VALUE], Number.MAX_VALUE, 0],
    [[Number.MAX_VALUE, -Number.MAX_VALUE], 0, Number.MAX_VALUE],
    [[1e200, 3e200], 2e200, 1e200],
    [[1e-200, 3e-200], 2e-200, 1e-200],
    [[0, 2 * Number.MIN_VALUE], Number.MIN_VALUE, Number.MIN_VALUE],
  ])('of %j', async (numbers, mean, std) => {
    for (const windows of [[numbers], numbers.map((one) => [one])]) {
      const found = await statistics(windows, 'F64');
      expectNear(found.mean, mean);
      expectNear(found.std, std, 1e-3 * std);
    }
  });
});

function tensorOf(data: Float64Array | Float32Array): Tensor {
  const dtype = data instanceof Float64Array ? 'F64' : 'F32';
  return parse(serialize({ t: { dtype, shape: [data.length], data } })).getTensor('t');
}

/** More values than a block of sums has. */
const LONG = 5000;

describe('the difference of doubles of any size', () => {
  const pairs = fc.oneof(
    fc.array(fc.tuple(fc.oneof(edge, any), fc.oneof(edge, any)), { minLength: 1, maxLength: 12 }),
    // Nearly equal values.
    fc.array(
      fc
        .tuple(fc.oneof(edge, any), fc.constantFrom(1, 1 - Number.EPSILON, 0.5))
        .map(([value, factor]) => [value, value * factor] as [number, number]),
      { minLength: 1, maxLength: 12 },
    ),
    fc
      .tuple(alike, alike)
      .map(([a, b]) => a.slice(0, b.length).map((one, i) => [one, b[i]] as [number, number])),
  );

  it('has the exact relative error and cosine, up to rounding', async () => {
    await fc.assert(
      fc.asyncProperty(pairs, beside, fc.boolean(), async (chosen, others, isLong) => {
        // Behind zeros, the pairs are in two blocks.
        const zeros = isLong ? Array.from({ length: LONG }, () => [0, 0] as [number, number]) : [];
        const all = [...chosen.slice(0, 2), ...zeros, ...chosen.slice(2)];
        const side = (i: 0 | 1): Tensor =>
          tensorOf(Float64Array.from([...all.map((pair) => pair[i]), ...others]));
        const found = await compareTensors(side(0), side(1));
        const [a, b] = [0, 1].map((i) => chosen.map((pair) => exact(pair[i] as number))) as [
          bigint[],
          bigint[],
        ];
        const errors = a.map((one, i) => one - (b[i] as bigint));
        const [squares, squaresA, squaresB] = [errors, a, b].map((side) =>
          sum(side.map((one) => one * one)),
        ) as [bigint, bigint, bigint];
        if (squaresA === 0n) expect(found.relative).toBeNull();
        else expectNear(found.relative, root(squares, squaresA));
        if (squaresA === 0n || squaresB === 0n) expect(found.cosine).toBeNull();
        else {
          const dot = sum(a.map((one, i) => one * (b[i] as bigint)));
          const cosine = Math.sign(double(dot, 1n)) * root(dot * dot, squaresA * squaresB);
          expectNear(found.cosine, cosine, 1);
        }
      }),
      { seed: SEED, numRuns: 500 },
    );
  });

  it('of other dtypes is that of doubles', async () => {
    const a = Float32Array.of(2 ** -149, -(2 ** 127), 3);
    const b = Float32Array.of(2 ** -148, 2 ** 127, 3);
    const asDoubles = await compareTensors(
      tensorOf(Float64Array.from(a)),
      tensorOf(Float64Array.from(b)),
    );
    expect(await compareTensors(tensorOf(a), tensorOf(b))).toEqual(asDoubles);
  });

  it.each([
    [[1e200, 1e200], [1e200, 2e200], Math.SQRT1_2, 3 / Math.sqrt(10)],
    [[1e-200, 1e-200], [1e-200, 2e-200], Math.SQRT1_2, 3 / Math.sqrt(10)],
    [[1, 1e-200], [1, 2e-200], 1e-200, 1],
    [[Number.MAX_VALUE], [-Number.MAX_VALUE], 2, -1],
    [[1e300], [1e-300], 1, 1],
    [[1e-300], [1e300], Number.POSITIVE_INFINITY, 1],
  ])('of %j and %j', async (a, b, relative, cosine) => {
    const found = await compareTensors(
      tensorOf(Float64Array.from(a)),
      tensorOf(Float64Array.from(b)),
    );
    expectNear(found.relative, relative);
    expectNear(found.cosine, cosine);
  });
});
