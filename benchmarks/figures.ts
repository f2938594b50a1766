/** Figures as people type and read them: sizes, times, medians, tables. */

const UNITS: ReadonlyMap<string, number> = new Map([
  ['', 1],
  ['B', 1],
  ['KB', 1e3],
  ['MB', 1e6],
  ['GB', 1e9],
  ['KIB', 2 ** 10],
  ['MIB', 2 ** 20],
  ['GIB', 2 ** 30],
]);

/** Bytes of a text such as `1GB`, `256 MiB` or `1.5gb`; undefined when it is no such text. */
export function parseByteSize(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(text.trim());
  const unit = UNITS.get(match?.[2]?.toUpperCase() ?? '');
  if (match === null || unit === undefined) return undefined;
  const bytes = Math.round(Number(match[1]) * unit);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** Bytes in decimal units with about three digits: `999 B`, `1.5 MB`, `256 MB`. */
export function formatByteSize(bytes: number): string {
  const magnitude = Math.abs(bytes);
  if (magnitude < 1e3) return `${bytes} B`;
  const [unit, scale] = magnitude < 1e6 ? ['kB', 1e3] : magnitude < 1e9 ? ['MB', 1e6] : ['GB', 1e9];
  const value = bytes / scale;
  return `${value.toFixed(Math.abs(value) < 10 ? 2 : Math.abs(value) < 100 ? 1 : 0)} ${unit}`;
}

/** Milliseconds with about three digits: `0.42 µs`, `0.021 ms`, `4.1 ms`, `1.32 s`. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(2)} s`;
  if (milliseconds < 0.01) return `${(milliseconds * 1000).toFixed(2)} µs`;
  const digits = milliseconds < 0.1 ? 3 : milliseconds < 10 ? 2 : milliseconds < 100 ? 1 : 0;
  return `${milliseconds.toFixed(digits)} ms`;
}

/** A ratio: `1.05 ×`. */
export function formatRatio(ratio: number): string {
  return `${ratio.toFixed(2)} ×`;
}

/** A measured value for a table; a dash for NaN, which stands for "not measured". */
export function cell(value: number, format: (value: number) => string): string {
  return Number.isNaN(value) ? '–' : format(value);
}

/** Middle value of the sorted numbers (mean of the two middle ones); NaN of none. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** Rows of a table, the heading first. The first column is text, the others are figures. */
export type Rows = readonly (readonly string[])[];

/** Pads the cells of every column to one width: text to the left, figures to the right. */
function aligned(rows: Rows, minimumWidth = 0): string[][] {
  const columns = rows[0]?.length ?? 0;
  const widths = Array.from({ length: columns }, (_, column) =>
    Math.max(minimumWidth, ...rows.map((row) => row[column]?.length ?? 0)),
  );
  return rows.map((row) =>
    widths.map((width, column) =>
      column === 0 ? (row[column] ?? '').padEnd(width) : (row[column] ?? '').padStart(width),
    ),
  );
}

/** Lines with aligned columns, two spaces apart. */
export function alignedTable(rows: Rows): string {
  return aligned(rows)
    .map((row) => row.join('  ').trimEnd())
    .join('\n');
}

/** The same as a Markdown table. */
export function markdownTable(rows: Rows): string {
  const [head = [], ...body] = aligned(rows, 3);
  const rule = head.map(({ length }, column) =>
    column === 0 ? '-'.repeat(length) : `${'-'.repeat(length - 1)}:`,
  );
  return [head, rule, ...body].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

/** The rows of a Markdown table, the heading first. */
export function rowsOf(text: string): string[][] {
  const lines = text.split('\n').filter((line) => line.startsWith('|') && !line.startsWith('| --'));
  return lines.map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}
