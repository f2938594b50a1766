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

/** Steps that people count in. */
const STEPS = [1, 2, 5, 10];

/** An axis with marks at round values. */
export function linearScale(min: number, max: number, count = 5): Scale {
  const span = max - min || Math.abs(max) || 1;
  const low = max === min ? min - span / 2 : min;
  const rough = span / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = (STEPS.find((one) => one * power >= rough) as number) * power;
  const first = Math.ceil(low / step);
  const ticks = Array.from({ length: Math.floor((low + span) / step) - first + 1 }, (_, index) => {
    const value = (first + index) * step;
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
