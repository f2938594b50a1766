/** Axes of plots: where values are, and at which of them there are marks. */

import { shortNumber } from './format.js';

/** An axis from one value to another. */
export interface Scale {
  /** The place of a value, from 0 to 1. */
  at(value: number): number;
  /** The value of a place. */
  from(place: number): number;
  readonly ticks: readonly { readonly value: number; readonly label: string }[];
}

/** Steps that people count in, the largest first. */
const STEPS = [10, 5, 2, 1, 0.5, 0.2, 0.1];

/** Fewest marks of an axis. */
const MIN_TICKS = 3;

/** An axis with about `count` marks at round values. */
export function linearScale(min: number, max: number, count = 5): Scale {
  const span = max - min || Math.abs(max) || 1;
  const low = max === min ? min - span / 2 : min;
  const power = 10 ** Math.floor(Math.log10(span / count));
  const firstAt = (step: number) => Math.ceil(low / step - 1e-9);
  const ticksOf = (step: number) => Math.floor((low + span) / step + 1e-9) - firstAt(step) + 1;
  const fewest = Math.max(MIN_TICKS, Math.ceil(count / 2));
  const step = power * (STEPS.find((one) => ticksOf(one * power) >= fewest) ?? 0.1);
  const ticks = Array.from({ length: ticksOf(step) || 0 }, (_, index) => {
    const value = (firstAt(step) + index) * step;
    return { value, label: shortNumber(Math.abs(value) < step / 2 ? 0 : value) };
  });
  return { at: (value) => (value - low) / span, from: (place) => low + place * span, ticks };
}

/** An axis of powers of ten, for values above 0. Values below `min` are at its start. */
export function logScale(min: number, max: number): Scale {
  const [low, high] = [Math.log10(min), Math.log10(Math.max(max, min * 10))];
  const every = Math.max(1, Math.ceil((high - low) / 6));
  const ticks = Array.from(
    { length: Math.floor(high) - Math.ceil(low) + 1 },
    (_, index) => Math.ceil(low) + index,
  )
    .filter((power) => power % every === 0)
    .map((power) => ({ value: 10 ** power, label: shortNumber(10 ** power) }));
  return {
    at: (value) => Math.max(0, (Math.log10(Math.max(value, min)) - low) / (high - low)),
    from: (place) => 10 ** (low + place * (high - low)),
    ticks,
  };
}

/** Share of the median that the axis of lines shows on either side, at least. */
const MIN_SPREAD = 0.2;

/** From this ratio of the greatest to the least on, lines need an axis of powers. */
const LOG_RATIO = 20;

/** The ends of an axis for lines: small changes of large values stay small. */
export function lineLimits(values: ArrayLike<number>): [number, number] {
  const known = Float64Array.from(values).filter(Number.isFinite).sort();
  const [min, max] = [known[0], known.at(-1)];
  if (min === undefined || max === undefined) return [0, 1];
  const median = known[Math.floor(known.length / 2)] as number;
  const spread = MIN_SPREAD * Math.abs(median);
  return [Math.min(min, median - spread), Math.max(max, median + spread)];
}

/** Whether an axis of powers shows more of values than a linear one, where the least would be as good as 0. */
export function needsLog(values: ArrayLike<number>): boolean {
  const known = Float64Array.from(values).filter(Number.isFinite);
  const min = known.reduce((least, value) => Math.min(least, value), Number.POSITIVE_INFINITY);
  const max = known.reduce((most, value) => Math.max(most, value), 0);
  return min > 0 && max / min >= LOG_RATIO;
}
