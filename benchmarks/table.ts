/** Tables for a terminal and for Markdown. The first column is text, the others are figures. */

function widths(rows: readonly (readonly string[])[]): number[] {
  const result: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) {
      result[column] = Math.max(result[column] ?? 0, cell.length);
    }
  }
  return result;
}

function pad(row: readonly string[], columns: readonly number[]): string[] {
  return columns.map((width, column) => {
    const cell = row[column] ?? '';
    return column === 0 ? cell.padEnd(width) : cell.padStart(width);
  });
}

/** Lines with aligned columns, two spaces apart. */
export function alignedTable(rows: readonly (readonly string[])[]): string {
  const columns = widths(rows);
  return rows.map((row) => pad(row, columns).join('  ').trimEnd()).join('\n');
}

/** The same as a Markdown table; the first row is the heading. */
export function markdownTable(rows: readonly (readonly string[])[]): string {
  const columns = widths(rows).map((width) => Math.max(width, 3));
  const rule = columns.map((width, column) =>
    column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`,
  );
  const [head = [], ...body] = rows.map((row) => pad(row, columns));
  return [head, rule, ...body].map((row) => `| ${row.join(' | ')} |`).join('\n');
}
