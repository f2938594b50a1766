/** A part of a tensor that stands for all of it, so that a large one shows something at once. */

import type { Axis } from '../selection.js';

/** How much a sample reads. */
interface SampleSize {
  readonly elements: number;
  /** Places to read at: each is a request to a server. */
  readonly runs: number;
}

/** Files are read fast; of a server a sample is a few requests. */
const SIZES = {
  files: { one: { elements: 2 ** 20, runs: 256 }, many: { elements: 2 ** 18, runs: 16 } },
  requests: { one: { elements: 2 ** 18, runs: 24 }, many: { elements: 2 ** 14, runs: 4 } },
};

/** Sizes of samples of one tensor, and of one among all of a model. */
export function sampleSize(isRequested: boolean, isOneOfMany: boolean): SampleSize {
  return SIZES[isRequested ? 'requests' : 'files'][isOneOfMany ? 'many' : 'one'];
}

/** Takes `count` of an axis at even distances. */
function spread(size: number, count: number): Axis {
  const step = Math.max(1, Math.floor(size / count));
  return { start: Math.floor((size - 1 - step * (count - 1)) / 2), step, count, kept: true };
}

/**
 * Selects rows at even distances of all dimensions but the last, whole or from its middle; everything of a small
 * tensor.
 */
export function sampleAxes(shape: readonly number[], { elements, runs }: SampleSize): Axis[] {
  const whole = shape.map((size) => spread(size, size));
  const total = shape.reduce((product, size) => product * size, 1);
  if (total <= elements) return whole;
  const columns = shape.at(-1) as number;
  const length = Math.min(columns, elements);
  const middle = { start: Math.floor((columns - length) / 2), step: 1, count: length, kept: true };
  let left = Math.max(1, Math.min(runs, Math.floor(elements / length)));
  // Every dimension gets its share: of 128 experts there are some, and of each some rows.
  const outer = shape.slice(0, -1);
  return [
    ...outer.map((size, axis) => {
      const share = Math.ceil(left ** (1 / (outer.length - axis)));
      const count = Math.min(size, share);
      left = Math.max(1, Math.floor(left / count));
      return spread(size, count);
    }),
    middle,
  ];
}

/** Number of elements of a selection. */
export function selectedElements(axes: readonly Axis[]): number {
  return axes.reduce((product, { count }) => product * count, 1);
}
