/** Tables that fit the terminal, and stay whole in a pipe. */

import { cutMiddle, widthOf } from './width.js';

/** One column. */
export interface Column {
  readonly title: string;
  readonly align?: 'left' | 'right';
  /** Whether to cut its cells in the middle if the table is too wide; for at most one column. */
  readonly gives?: boolean;
}

/** Least width of a cut column. */
const LEAST_WIDTH = 12;

/** Between columns. */
export const GAP = '  ';

/**
 * Lines of a table, titles first. Cells hold text without control characters and without colours.
 *
 * @param width columns of the terminal; null for no limit
 * @param markTitles styles the line of titles
 */
export function tableLines(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number | null,
  markTitles: (text: string) => string,
): string[] {
  const titles = columns.map(({ title }) => title);
  const widths = titles.map(widthOf);
  const measured = rows.map((row) => row.map(widthOf));
  for (const row of measured) {
    for (let i = 0; i < row.length; i++) {
      widths[i] = Math.max(widths[i] as number, row[i] as number);
    }
  }
  const giving = columns.findIndex(({ gives }) => gives === true);
  if (width !== null && giving >= 0) {
    const whole = widths.reduce((sum, each) => sum + each + GAP.length, -GAP.length);
    const left = (widths[giving] as number) - Math.max(0, whole - width);
    widths[giving] = Math.min(widths[giving] as number, Math.max(LEAST_WIDTH, left));
  }
  const line = (row: readonly string[], cellWidths: readonly number[]): string => {
    let text = '';
    for (let i = 0; i < row.length; i++) {
      let cell = row[i] as string;
      let cellWidth = cellWidths[i] as number;
      if (i === giving && cellWidth > (widths[i] as number)) {
        cell = cutMiddle(cell, widths[i] as number);
        cellWidth = widthOf(cell);
      }
      const padding = ' '.repeat((widths[i] as number) - cellWidth);
      const isRight = columns[i]?.align === 'right';
      text += (i === 0 ? '' : GAP) + (isRight ? padding + cell : cell + padding);
    }
    return text.trimEnd();
  };
  return [
    markTitles(line(titles, titles.map(widthOf))),
    ...rows.map((row, i) => line(row, measured[i] as number[])),
  ];
}

/** Lines of facts, with names in one column: `tensors     147`. */
export function infoLines(
  facts: readonly (readonly [name: string, value: string])[],
  markName: (text: string) => string,
): string[] {
  const widths = facts.map(([name]) => widthOf(name));
  const width = widths.reduce((most, each) => Math.max(most, each), 0);
  return facts.map(([name, value], i) => {
    const padding = ' '.repeat(width - (widths[i] as number));
    return `${markName(name)}${padding}${GAP}${value}`.trimEnd();
  });
}
