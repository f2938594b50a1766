/**
 * Tables of pages that repeat rows of the page of results. A comment above such a table names the section:
 * `<!-- results: Saving -->` stands for the one whose heading begins so.
 */
import { markdownTable, type Rows, rowsOf } from './figures.js';

/** The pages, from the root of the repository. */
export const PAGES: readonly string[] = ['README.md', 'docs/performance.md', 'docs/formats.md'];

const MARKED_TABLE = /(<!-- results: (.+) -->\n)((?:\|.*\n)+)/g;

/** A page with the figures of the results in its tables; what the results do not have stays as it is. */
export function refreshTables(page: string, results: string): string {
  const sections = results.split(/^## /m);
  return page.replace(MARKED_TABLE, (_, comment: string, title: string, table: string) => {
    const section = sections.find((text) => text.startsWith(title)) ?? '';
    return `${comment}${markdownTable(refreshed(rowsOf(table), rowsOf(section)))}\n`;
  });
}

function refreshed([head = [], ...body]: Rows, [measuredHead = [], ...measured]: Rows): Rows {
  const rows = body.map((row) => {
    const source = measured.find(([name]) => name === plain(row[0]));
    if (source === undefined) return row;
    return row.map((cell, column) => {
      const figure = column === 0 ? undefined : source[measuredHead.indexOf(head[column] ?? '')];
      if (figure === undefined) return cell;
      return cell === plain(cell) ? figure : `**${figure}**`;
    });
  });
  return [head, ...rows];
}

/** A cell without emphasis. */
function plain(cell = ''): string {
  return cell.replaceAll('*', '');
}
