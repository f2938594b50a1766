/**
 * Statistics and histogram of values, in one pass each over windows of them. For tensors with elements of 8 or 16 bits,
 * both follow from one count of the bit patterns.
 */

import { argumentTypeError, requireInteger } from '../../errors/arguments.js';
import { isIterable } from '../../errors/brand-checks.js';
import type { Dtype } from '../../header/dtype.js';
import { countPatterns, hasPatterns, type PatternCounts } from './patterns.js';
import { RunningStatistics, type Statistics } from './running-statistics.js';
import { consume, type SliceableTensor, type TensorToRead, unreadTensor } from './tensor-values.js';

/** Values window by window, as `tensorValues` gives them, or arrays of a caller's own. */
export type ValueWindows = AsyncIterable<ArrayLike<number>> | Iterable<ArrayLike<number>>;

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
  const unread = unreadTensor(windows);
  const running = new RunningStatistics(dtype);
  if (unread === undefined || !hasPatterns(unread.tensor)) {
    for await (const values of numbersOf(windows)) running.add(values);
    return running.result();
  }
  const { tensor, options } = unread;
  const patterns = await countPatterns(tensor, options);
  await consume(windows);
  running.addPatterns(patterns);
  const found = running.result();
  counted = { found: new WeakRef(found), tensor: new WeakRef(tensor), patterns };
  return found;
}

/** The counts that the last statistics are from, for the histogram of the same tensor. */
let counted:
  | {
      readonly found: WeakRef<object>;
      readonly tensor: WeakRef<SliceableTensor>;
      readonly patterns: PatternCounts;
    }
  | undefined;

/** Returns the counts of a tensor, which the last statistics may have. */
async function countsOf({ tensor, options }: TensorToRead, range: object): Promise<PatternCounts> {
  const isCounted = counted?.found.deref() === range && counted.tensor.deref() === tensor;
  return isCounted && counted !== undefined
    ? counted.patterns
    : await countPatterns(tensor, options);
}

/**
 * Counts the values from `min` to `max` in `bins` ranges of one width; null without finite values.
 *
 * @param range where the first range begins and the last one ends, as `statistics` returns them. Right after
 *   `statistics` of the same tensor with many elements of 8 or 16 bits, no values are read again
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
  const counts = new Float64Array(bins);
  const isOne = min === max;
  const factor = isOne ? 1 : rangeFactor(max - min);
  const least = min * factor;
  const scale = isOne ? 0 : bins / (max * factor - least);
  const add = (values: ArrayLike<number>, times?: Float64Array): void => {
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (!(value >= min && value <= max)) continue;
      const bin = Math.min(bins - 1, Math.floor((value * factor - least) * scale));
      counts[bin] = (counts[bin] as number) + (times === undefined ? 1 : (times[i] as number));
    }
  };
  const unread = unreadTensor(windows);
  if (unread !== undefined && hasPatterns(unread.tensor)) {
    const { values, counts: times } = await countsOf(unread, range);
    await consume(windows);
    add(values, times);
  } else {
    for await (const values of numbersOf(windows)) add(values);
  }
  return { min, max, counts: Array.from(counts) };
}

/** A power of two by which values are multiplied, so that neither their range nor its inverse overflows. */
function rangeFactor(range: number): number {
  if (range > 2 ** 1000) return 2 ** -32;
  return range < 2 ** -900 ? 2 ** 100 : 1;
}
