/** Statistics and histogram of values, in one pass each over windows of them. */

import { argumentTypeError, requireInteger } from '../../errors/arguments.js';
import { isIterable } from '../../errors/brand-checks.js';
import type { Dtype } from '../../header/dtype.js';
import { factorOf, LOWEST_LEVEL, levelOf, raised } from './scaled.js';

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

/** Mean and squared deviations of values, in units of their level. */
class Moments {
  /** Number of values. */
  count = 0;
  level: number = LOWEST_LEVEL;
  #mean = 0;
  #squares = 0;

  /** Adds the finite values of a window, of which `greatest` is the greatest absolute one and `sum` the sum. */
  add(values: ArrayLike<number>, count: number, greatest: number, sum: number): void {
    const own = greatest === 0 ? this.level : levelOf(greatest);
    const factor = factorOf(own);
    const mean = (own === 0 ? sum : scaledSum(values, factor)) / count;
    let squares = 0;
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (Number.isFinite(value)) squares += (value * factor - mean) ** 2;
    }
    this.#merge(count, mean, squares, own);
  }

  /** Welford's method for groups, which does not cancel. */
  #merge(count: number, mean: number, squares: number, level: number): void {
    const common = Math.max(this.level, level);
    const all = this.count + count;
    const before = raised(this.#mean, this.level - common);
    const own = raised(mean, level - common);
    this.#squares =
      raised(this.#squares, 2 * (this.level - common)) +
      raised(squares, 2 * (level - common)) +
      ((own - before) ** 2 * this.count * count) / all;
    this.#mean = before + ((own - before) * count) / all;
    this.level = common;
    this.count = all;
  }

  /** Rounding must not lead beyond the limits of mean and deviation, above all not to infinity. */
  result(min: number, max: number): Pick<Statistics, 'mean' | 'std'> {
    const mean = raised(this.#mean, this.level);
    const std = raised(Math.sqrt(this.#squares / this.count), this.level);
    return {
      mean: Math.min(max, Math.max(min, mean)),
      std: Math.min(std, max / 2 - min / 2),
    };
  }
}

function scaledSum(values: ArrayLike<number>, factor: number): number {
  let sum = 0;
  for (let i = 0; i < values.length; i++) {
    const value = values[i] as number;
    if (Number.isFinite(value)) sum += value * factor;
  }
  return sum;
}

/**
 * Statistics in one pass.
 *
 * @param dtype of the values, to count subnormal ones; F32 for logical tensors
 *
 * @example
 * ```ts
 * const embed = safeOpen('model.safetensors').getTensor('embed.weight');
 * const { min, max, mean, zero } = await statistics(tensorValues(embed), embed.dtype);
 * console.log(min, max, mean, zero); // → 0 7.75 3.875 1
 * ```
 */
export async function statistics(windows: ValueWindows, dtype: Dtype): Promise<Statistics> {
  const leastNormal = LEAST_NORMAL[dtype] ?? 0;
  let [elements, nan, zero, subnormal] = [0, 0, 0, 0];
  let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  const moments = new Moments();
  for await (const values of numbersOf(windows)) {
    let count = 0;
    let sum = 0;
    let [least, most] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (value === 0) zero++;
      else if (value < leastNormal && value > -leastNormal) subnormal++;
      if (Number.isFinite(value)) {
        count++;
        sum += value;
        if (value < least) least = value;
        if (value > most) most = value;
      } else if (Number.isNaN(value)) nan++;
    }
    elements += values.length;
    if (count === 0) continue;
    moments.add(values, count, Math.max(-least, most), sum);
    min = Math.min(min, least);
    max = Math.max(max, most);
  }
  const finite = moments.count;
  return {
    elements,
    ...(finite > 0
      ? { min, max, ...moments.result(min, max) }
      : { min: null, max: null, mean: null, std: null }),
    ...{ nan, infinite: elements - finite - nan, zero, subnormal },
  };
}

/**
 * Counts finite values in `bins` ranges of one width from `min` to `max`; null without finite values.
 *
 * @param range where the first range begins and the last one ends, as `statistics` gives them
 * @throws RangeError `ERR_OUT_OF_RANGE` unless `bins` is an integer from 1 to 65 536
 *
 * @example
 * ```ts
 * const embed = safeOpen('model.safetensors').getTensor('embed.weight');
 * const stats = await statistics(tensorValues(embed), embed.dtype);
 * console.log((await histogram(tensorValues(embed), stats, 4))?.counts); // → [ 8, 8, 8, 8 ]
 * ```
 */
export async function histogram(
  windows: ValueWindows,
  range: Pick<Statistics, 'min' | 'max'>,
  bins: number,
): Promise<Histogram | null> {
  if (typeof range !== 'object' || range === null) {
    throw argumentTypeError('range', 'an object with min and max, as of statistics', range);
  }
  const { min, max } = range;
  requireInteger('bins', bins, 1, MOST_BINS);
  if (min === null || max === null) return null;
  const counts = new Array<number>(bins).fill(0);
  const factor = rangeFactor(max - min);
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
function rangeFactor(range: number): number {
  if (range > 2 ** 1000) return 2 ** -32;
  return range < 2 ** -900 ? 2 ** 100 : 1;
}
