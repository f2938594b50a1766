/** Statistics and histogram of values, in one pass each over windows of them. */

import { argumentTypeError, requireInteger } from '../../errors/arguments.js';
import { isIterable } from '../../errors/brand-checks.js';
import type { Dtype } from '../../header/dtype.js';

/** Values window by window, as `tensorValues` gives them, or arrays of a caller's own. */
export type ValueWindows = AsyncIterable<ArrayLike<number>> | Iterable<ArrayLike<number>>;

/** Of real numbers. NaN and infinities are counted, and left out of min, max, mean and std. */
export interface Statistics {
  /** All values. */
  readonly elements: number;
  /** Null, as the next three, without finite values. */
  readonly min: number | null;
  /** The greatest finite value. */
  readonly max: number | null;
  /** The mean of the finite values. */
  readonly mean: number | null;
  /** Standard deviation of the population: divides by the number of values. */
  readonly std: number | null;
  /** Values that are NaN. */
  readonly nan: number;
  /** Infinities of both signs. */
  readonly infinite: number;
  /** Values that are 0 or -0. */
  readonly zero: number;
  /** Values nearer to zero than the least normal number of their dtype, and not zero. */
  readonly subnormal: number;
}

const MOST_BINS = 65_536;

/** Counts of values in ranges of one width. */
export interface Histogram {
  /** Where the first range begins. */
  readonly min: number;
  /** Where the last range ends; it is counted in that. */
  readonly max: number;
  /** Values of each range. */
  readonly counts: readonly number[];
}

/** The least positive normal number of each dtype that has subnormal ones. */
const LEAST_NORMAL: Readonly<Partial<Record<Dtype, number>>> = {
  F64: 2 ** -1022,
  F32: 2 ** -126,
  BF16: 2 ** -126,
  F16: 2 ** -14,
  F8_E5M2: 2 ** -14,
  F8_E5M2FNUZ: 2 ** -15,
  F8_E4M3: 2 ** -6,
  F8_E4M3FNUZ: 2 ** -7,
  F6_E3M2: 2 ** -2,
  F6_E2M3: 1,
  F4: 1,
};

/** The same windows. Throws a TypeError unless the windows are arrays of numbers. */
async function* numbersOf(windows: ValueWindows): AsyncGenerator<ArrayLike<number>, void, void> {
  const error = (): TypeError =>
    argumentTypeError('windows', 'arrays of numbers, such as tensorValues(tensor)', windows);
  const isAsync = Symbol.asyncIterator in Object(windows);
  if (typeof windows === 'string' || !(isAsync || isIterable(windows))) throw error();
  for await (const values of windows) {
    const first: unknown = Object(values)[0];
    if (Object(values).length !== 0 && typeof first !== 'number') throw error();
    yield values;
  }
}

/**
 * Statistics in one pass; the variance by Welford's method for groups, which does not cancel.
 *
 * @param dtype of the values, to count subnormal ones; F32 for logical tensors
 *
 * @example
 * ```ts
 * const embed = safeOpen('model.safetensors').getTensor('embed.weight');
 * const { min, max, mean, zero } = await statisticsOf(tensorValues(embed), embed.dtype);
 * console.log(min, max, mean, zero); // → 0 7.75 3.875 1
 * ```
 */
export async function statisticsOf(windows: ValueWindows, dtype: Dtype): Promise<Statistics> {
  const leastNormal = LEAST_NORMAL[dtype] ?? 0;
  let [elements, finite, nan, zero, subnormal, mean, squares] = [0, 0, 0, 0, 0, 0, 0];
  let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for await (const values of numbersOf(windows)) {
    let count = 0;
    let sum = 0;
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (value === 0) zero++;
      else if (value < leastNormal && value > -leastNormal) subnormal++;
      if (Number.isFinite(value)) {
        count++;
        sum += value;
        if (value < min) min = value;
        if (value > max) max = value;
      } else if (Number.isNaN(value)) nan++;
    }
    elements += values.length;
    if (count === 0) continue;
    const own = sum / count;
    let ownSquares = 0;
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (Number.isFinite(value)) ownSquares += (value - own) ** 2;
    }
    const all = finite + count;
    squares += ownSquares + ((own - mean) ** 2 * finite * count) / all;
    mean += ((own - mean) * count) / all;
    finite = all;
  }
  const known = finite > 0;
  return {
    elements,
    min: known ? min : null,
    max: known ? max : null,
    mean: known ? mean : null,
    std: known ? Math.sqrt(squares / finite) : null,
    ...{ nan, infinite: elements - finite - nan, zero, subnormal },
  };
}

/**
 * Counts finite values in `bins` ranges of one width from `min` to `max`; null without finite values.
 *
 * @param range where the first range begins and the last one ends, as `statisticsOf` gives them
 * @throws RangeError `ERR_OUT_OF_RANGE` unless `bins` is an integer from 1 to 65 536
 *
 * @example
 * ```ts
 * const embed = safeOpen('model.safetensors').getTensor('embed.weight');
 * const stats = await statisticsOf(tensorValues(embed), embed.dtype);
 * console.log((await histogramOf(tensorValues(embed), stats, 4))?.counts); // → [ 8, 8, 8, 8 ]
 * ```
 */
export async function histogramOf(
  windows: ValueWindows,
  range: Pick<Statistics, 'min' | 'max'>,
  bins: number,
): Promise<Histogram | null> {
  if (typeof range !== 'object' || range === null) {
    throw argumentTypeError('range', 'an object with min and max, as of statisticsOf', range);
  }
  const { min, max } = range;
  requireInteger('bins', bins, 1, MOST_BINS);
  if (min === null || max === null) return null;
  const counts = new Array<number>(bins).fill(0);
  const factor = factorOf(max - min);
  const least = min * factor;
  const scale = bins / (max * factor - least);
  for await (const values of numbersOf(windows)) {
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (!Number.isFinite(value)) continue;
      const bin =
        max === min ? 0 : Math.min(bins - 1, Math.floor((value * factor - least) * scale));
      counts[bin] = (counts[bin] as number) + 1;
    }
  }
  return { min, max, counts };
}

/** A power of two by which values are multiplied, so that neither their range nor its inverse overflows. */
function factorOf(range: number): number {
  if (range > 2 ** 1000) return 2 ** -32;
  return range < 2 ** -900 ? 2 ** 100 : 1;
}
