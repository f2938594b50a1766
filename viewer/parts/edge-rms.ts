/** Root mean squares of the rows and the columns of a picture of values. */

import type { Heat } from '../worker/heat.js';

/** Of the finite values of each row, or each column; NaN where no value is finite. */
export function edgeRms(
  { values, rows, columns }: Pick<Heat, 'values' | 'rows' | 'columns'>,
  of: 'row' | 'column',
): Float64Array {
  const length = of === 'row' ? rows : columns;
  const [squares, counts] = [new Float64Array(length), new Float64Array(length)];
  for (let at = 0; at < values.length; at++) {
    const value = values[at] as number;
    if (!Number.isFinite(value)) continue;
    const edge = of === 'row' ? Math.floor(at / columns) : at % columns;
    squares[edge] = (squares[edge] as number) + value ** 2;
    counts[edge] = (counts[edge] as number) + 1;
  }
  return squares.map((sum, edge) => Math.sqrt(sum / (counts[edge] as number)));
}

/** The position of the greatest; null where all are NaN. */
export function greatestOf(rms: Float64Array): number | null {
  let best: number | null = null;
  for (const [at, value] of rms.entries()) {
    if (best === null ? !Number.isNaN(value) : value > (rms[best] as number)) best = at;
  }
  return best;
}
