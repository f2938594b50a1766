/** What is wrong with values: where the first that is not finite is, and rows of zeros. */

import type { Axis } from '../selection.js';

type Windows = AsyncIterable<ArrayLike<number>>;

/**
 * The index in the tensor of the first value that is not finite; null without one.
 *
 * @param axes the part of the tensor that the windows are of
 */
export async function firstBroken(
  windows: Windows,
  axes: readonly Axis[],
): Promise<readonly number[] | null> {
  let before = 0;
  for await (const values of windows) {
    for (let at = 0; at < values.length; at++)
      if (!Number.isFinite(values[at])) return indexOf(before + at, axes);
    before += values.length;
  }
  return null;
}

function indexOf(position: number, axes: readonly Axis[]): number[] {
  const index: number[] = [];
  let rest = position;
  for (const { start, step, count } of axes.toReversed()) {
    index.unshift(start + step * (rest % count));
    rest = Math.floor(rest / count);
  }
  return index;
}

/** Counts rows along the last dimension that are nothing but zeros. */
export async function countZeroRows(windows: Windows, columns: number): Promise<number> {
  let [rows, column, isZero] = [0, 0, true];
  for await (const values of windows) {
    for (let at = 0; at < values.length; at++) {
      if (values[at] !== 0) isZero = false;
      if (++column < columns) continue;
      if (isZero) rows++;
      [column, isZero] = [0, true];
    }
  }
  return rows;
}
