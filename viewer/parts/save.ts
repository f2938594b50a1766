/** Saving what a view shows: tables as CSV and JSON, pictures as PNG. */

/** A cell of a table. */
export type Cell = string | number | null;

/** Texts that a spreadsheet would take for a formula. */
const FORMULA = /^[=+@\t\r]|^-(?![\d.]|Infinity$)/;

function csvCell(cell: Cell): string {
  // Names of tensors are texts of other people: none may become a formula.
  const text =
    cell === null ? '' : typeof cell === 'string' && FORMULA.test(cell) ? `'${cell}` : String(cell);
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** A table as CSV (RFC 4180), with the names of the columns first. */
export function csvText(columns: readonly string[], rows: Iterable<readonly Cell[]>): string {
  return `${[columns, ...rows].map((row) => row.map(csvCell).join(',')).join('\r\n')}\r\n`;
}

/** A table as JSON: a list of objects. */
export function jsonText(columns: readonly string[], rows: Iterable<readonly Cell[]>): string {
  const numbers = (cell: Cell | undefined) =>
    typeof cell === 'number' && !Number.isFinite(cell) ? String(cell) : (cell ?? null);
  const objects = Array.from(rows, (row) =>
    Object.fromEntries(columns.map((column, at) => [column, numbers(row[at])])),
  );
  return `${JSON.stringify(objects, null, 1)}\n`;
}

/** Saves bytes as a file of the browser's. */
export function saveBlob(name: string, blob: Blob): void {
  const url = URL.createObjectURL(blob);
  const link = document.createElement('a');
  link.href = url;
  // Letters of names that a path could be made of are left out.
  link.download = name.replaceAll(/[^\w.-]+/g, '_');
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
