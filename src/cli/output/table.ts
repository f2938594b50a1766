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
  const widths = columns.map(({ title }) => widthOf(title));
  for (const row of rows) {
    for (let i = 0; i < row.length; i++) {
      const cell = widthOf(row[i] as string);
      if (cell > (widths[i] as number)) widths[i] = cell;
    }
  }
  const giving = columns.findIndex(({ gives }) => gives === true);
  if (width !== null && giving >= 0) {
    const whole = widths.reduce((sum, each) => sum + each + GAP.length, -GAP.length);
    const left = (widths[giving] as number) - Math.max(0, whole - width);
    widths[giving] = Math.min(widths[giving] as number, Math.max(LEAST_WIDTH, left));
  }
  const line = (row: readonly string[]): string => {
    let text = '';
    for (let i = 0; i < row.length; i++) {
      const cell = i === giving ? cutMiddle(row[i] as string, widths[i] as number) : row[i];
      const padding = ' '.repeat((widths[i] as number) - widthOf(cell as string));
      const isRight = columns[i]?.align === 'right';
      text += (i === 0 ? '' : GAP) + (isRight ? padding + cell : cell + padding);
    }
    return text.trimEnd();
  };
  return [markTitles(line(columns.map(({ title }) => title))), ...rows.map(line)];
}

/** Lines of facts, with names in one column: `tensors     147`. */
export function factLines(
  facts: readonly (readonly [name: string, value: string])[],
  markName: (text: string) => string,
): string[] {
  const width = facts.reduce((most, [name]) => Math.max(most, widthOf(name)), 0);
  return facts.map(([name, value]) => {
    const padding = ' '.repeat(width - widthOf(name));
    return `${markName(name)}${padding}${GAP}${value}`.trimEnd();
  });
}
