/** Figures as people type and read them: sizes, times, medians, tables. */

const UNITS = { '': 1, B: 1, KB: 1e3, MB: 1e6, GB: 1e9, KIB: 2 ** 10, MIB: 2 ** 20, GIB: 2 ** 30 };

/** Bytes of a text such as `1GB`, `256 MiB` or `1.5gb`; undefined for any other text. */
export function parseByteSize(text) {
  const [, number, unit = ''] = /^(\d+(?:\.\d+)?)\s*([A-Za-z]*)$/.exec(text.trim()) ?? [];
  const bytes = Math.round(Number(number) * UNITS[unit.toUpperCase()]);
  return Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** Shows a figure; a dash stands for NaN, "not measured". */
const orDash = (format) => (value) => (Number.isNaN(value) ? '–' : format(value));

/** Bytes in decimal units with about three digits: `999 B`, `1.50 MB`, `256 MB`. */
export const formatByteSize = orDash((bytes) => {
  const magnitude = Math.abs(bytes);
  if (magnitude < 1e3) return `${bytes} B`;
  const [unit, scale] = magnitude < 1e6 ? ['kB', 1e3] : magnitude < 1e9 ? ['MB', 1e6] : ['GB', 1e9];
  const value = Math.abs(bytes / scale);
  return `${(bytes / scale).toFixed(value < 10 ? 2 : value < 100 ? 1 : 0)} ${unit}`;
});

/** Milliseconds with about three digits: `0.42 µs`, `0.021 ms`, `4.10 ms`, `1.32 s`. */
export const formatDuration = orDash((milliseconds) => {
  if (milliseconds >= 1000) return `${(milliseconds / 1000).toFixed(2)} s`;
  if (milliseconds < 0.01) return `${(milliseconds * 1000).toFixed(2)} µs`;
  const digits = milliseconds < 0.1 ? 3 : milliseconds < 10 ? 2 : milliseconds < 100 ? 1 : 0;
  return `${milliseconds.toFixed(digits)} ms`;
});

/** How a figure in a unit is shown, and what one of that unit is in ms or bytes. */
export const FORMATS = {
  ms: [formatDuration, 1],
  s: [formatDuration, 1000],
  '×': [orDash((ratio) => `${ratio.toFixed(2)} ×`), 1],
  '1×': [orDash((ratio) => `${ratio.toFixed(1)} ×`), 1],
  MB: [formatByteSize, 1e6],
  '+MB': [orDash((bytes) => `${bytes < 0 ? '' : '+'}${formatByteSize(bytes)}`), 1e6],
  '#': [orDash(String), 1],
};

/** Middle value of the sorted numbers (mean of the two middle ones); NaN of none. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? Number.NaN) + upper) / 2;
}

/** The ends of the values; the fastest and the slowest time, as a text. */
export const max = (values) => (values.length === 0 ? Number.NaN : Math.max(...values));
export const min = (values) => -max(values.map((value) => -value));
export function span(times) {
  const ends = [min(times), max(times)];
  return times.length === 0 ? '–' : ends.map(formatDuration).join(' – ');
}

/** A Markdown table with aligned columns, text in the first to the left, figures to the right; its heading comes first. */
export function markdownTable(rows) {
  const widths = rows[0].map((_, at) => Math.max(3, ...rows.map((row) => row[at]?.length ?? 0)));
  const pad = (text, width, at) => (at === 0 ? text.padEnd(width) : text.padStart(width));
  const [head, ...body] = rows.map((row) =>
    widths.map((width, at) => pad(row[at] ?? '', width, at)),
  );
  const rule = widths.map((width, at) => (at === 0 ? '' : ':').padStart(width, '-'));
  return [head, rule, ...body].map((row) => `| ${row.join(' | ')} |`).join('\n');
}

/** The rows of a Markdown table, the heading first. */
export function rowsOf(text) {
  const lines = text.split('\n').filter((line) => line.startsWith('|') && !line.startsWith('| --'));
  return lines.map((line) =>
    line
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}
