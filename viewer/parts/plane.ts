/** The two dimensions in which a selection is shown: two axes, or one that is wrapped into rows. */

import { type Axis, remainingAxes, within } from '../selection.js';

/** Columns of an axis that is shown alone. */
const WRAPPED = 10;

/** A table of the elements of a selection. */
export interface Plane {
  readonly rows: number;
  readonly columns: number;
  /** What the headers say: positions in the tensor, or from the first of a row on. */
  rowLabel(row: number): string;
  columnLabel(column: number): string;
  /** The index of an element in numpy's notation. */
  indexText(row: number, column: number): string;
  /** The selection of a part of the table, [from, to) each. */
  part(rows: readonly [number, number], columns: readonly [number, number]): Axis[];
}

/** The table of a selection that keeps two axes at most. */
export function planeTable(axes: readonly Axis[]): Plane {
  const kept = remainingAxes(axes);
  const indexAt = (at: ReadonlyMap<number, number>) =>
    `[${axes.map(({ start, step }, axis) => start + step * (at.get(axis) ?? 0)).join(', ')}]`;
  const replaced = (parts: ReadonlyMap<number, Axis>) =>
    axes.map((axis, at) => parts.get(at) ?? axis);
  if (kept.length < 2) {
    const [only = -1] = kept;
    const axis = axes[only] ?? { start: 0, step: 1, count: 1, kept: false };
    return {
      rows: Math.ceil(axis.count / WRAPPED),
      columns: Math.min(axis.count, WRAPPED),
      rowLabel: (row) => String(axis.start + axis.step * row * WRAPPED),
      columnLabel: (column) => `+${axis.step * column}`,
      indexText: (row, column) => indexAt(new Map([[only, row * WRAPPED + column]])),
      // Whole rows: the others cannot be cut out of one axis.
      part: ([from, to]) => replaced(new Map([[only, within(axis, from * WRAPPED, to * WRAPPED)]])),
    };
  }
  const [down, across] = kept as [number, number];
  const [rows, columns] = [axes[down], axes[across]] as [Axis, Axis];
  return {
    rows: columns.count === 0 ? 0 : rows.count,
    columns: columns.count,
    rowLabel: (row) => String(rows.start + rows.step * row),
    columnLabel: (column) => String(columns.start + columns.step * column),
    indexText: (row, column) =>
      indexAt(
        new Map([
          [down, row],
          [across, column],
        ]),
      ),
    part: ([firstRow, lastRow], [firstColumn, lastColumn]) =>
      replaced(
        new Map([
          [down, within(rows, firstRow, lastRow)],
          [across, within(columns, firstColumn, lastColumn)],
        ]),
      ),
  };
}
