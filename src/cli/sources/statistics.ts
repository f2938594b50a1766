/** Statistics and histogram of values, in one pass each over windows of them. */

/** The values of a tensor, window by window. */
export type ValueWindows = AsyncIterable<ArrayLike<number>>;

/** Counts NaN and infinities, and leaves them out of min, max, mean and std, which are null without finite values. */
export interface Statistics {
  readonly elements: number;
  readonly min: number | null;
  readonly max: number | null;
  readonly mean: number | null;
  /** Standard deviation of the population: divides by the number of values. */
  readonly std: number | null;
  readonly nan: number;
  readonly infinite: number;
  readonly zero: number;
}

/** Counts of values in ranges of one width. */
export interface Histogram {
  readonly min: number;
  readonly max: number;
  readonly counts: readonly number[];
}

/** One pass; the variance by Welford's method for groups, which does not cancel. */
export async function statisticsOf(windows: ValueWindows): Promise<Statistics> {
  let [elements, finite, nan, zero, mean, squares] = [0, 0, 0, 0, 0, 0];
  let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for await (const values of windows) {
    let count = 0;
    let sum = 0;
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (value === 0) zero++;
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
    ...{ nan, infinite: elements - finite - nan, zero },
  };
}

/** Counts finite values in `bins` ranges; null without finite values. */
export async function histogramOf(
  windows: ValueWindows,
  { min, max }: Pick<Statistics, 'min' | 'max'>,
  bins: number,
): Promise<Histogram | null> {
  if (min === null || max === null) return null;
  const counts = new Array<number>(bins).fill(0);
  const scale = bins / (max - min);
  for await (const values of windows) {
    for (let i = 0; i < values.length; i++) {
      const value = values[i] as number;
      if (!Number.isFinite(value)) continue;
      const bin = max === min ? 0 : Math.min(bins - 1, Math.floor((value - min) * scale));
      counts[bin] = (counts[bin] as number) + 1;
    }
  }
  return { min, max, counts };
}
