/** The page of results: tables of trials, verdicts, charts; and the tables of other pages that repeat its rows. */
import { barChart } from './chart.mjs';
import { markdownTable, rowsOf } from './figures.mjs';

/** A section, `{ title, rows, notes, targets, chart }`, as Markdown. */
export function markdownSection({ title, rows, notes }) {
  const list = notes.map((note) => `- ${note}`).join('\n');
  return [`## ${title}`, markdownTable(rows), ...(list === '' ? [] : [list])].join('\n\n');
}

/** The conditions of every ratio; on the page because the figures alone mislead. */
const CAVEATS = `The lazy figures ("open", "all tensors") stand beside the figures with every byte read: a mapping is
open at once because it has not read anything yet. The ratios of "every byte" depend on the size of the
model, on the page cache, and on the reader that is compared: readers that map are as fast as this
package; readers that copy need the time of the copy and as much private memory as the file has. Cold,
the disk decides.`;

/** The conditions of the figures, such as `date`, `processor` and `model`, as a Markdown list. */
export function markdownInfo(facts) {
  return Object.entries(facts)
    .map(([name, value]) => `- ${name}: ${value}`)
    .join('\n');
}

const TARGET_HEAD = ['what', 'to reach', 'measured', 'verdict', 'beside'];

const majorOf = (node) => Number.parseInt(node, 10);
const targetHeading = ({ node }) => `## Targets on Node ${majorOf(node)}`;

/** The targets of a run with their verdicts, in place of those of the `old` rows with the same names. */
export function targetSection(facts, sections, old = []) {
  const rows = [...old, ...sections.flatMap(({ targets }) => targets)];
  const latest = new Map(rows.map((row) => [row[0], row])).values();
  const run = `Node ${facts.node.split(',')[0]}, ${facts.date}, ${facts.model}:`;
  return [targetHeading(facts), run, markdownTable([TARGET_HEAD, ...latest])].join('\n\n');
}

/** The text before the tables. */
function introduction(facts, sections) {
  const charts = sections.flatMap(({ chart }) => chart ?? []);
  const images = charts.map(({ file, title }) => `![${title}](${file})`);
  return ['# Results', markdownInfo(facts), CAVEATS, ...images].join('\n\n');
}

/**
 * The page of results after a run, and charts, by the names of their files. The page has the tables of one version of Node; of another one it gets the targets alone.
 * A run of all trials makes all tables; a run of some replaces only their tables, each with a note that it was measured
 * separately.
 */
export function resultFiles(page, facts, sections, isWhole) {
  const [head, ...parts] = page.trimEnd().split(/\n\n(?=## )/);
  const isTargets = (part) => part.startsWith('## Targets on Node ');
  const isOtherNode = new RegExp(`^- node: (?!${majorOf(facts.node)}\\.)`, 'm').test(head);
  const isNew = isWhole && !isOtherNode;
  const kept = parts.filter((part) => !isNew || isTargets(part));
  const byHeading = new Map(kept.map((part) => [part.split('\n', 1)[0], part]));
  const apart = `measured apart from the rest: ${facts.date}, Node ${facts.node.split(',')[0]}`;
  for (const section of isOtherNode ? [] : sections) {
    const notes = isNew ? section.notes : [...section.notes, apart];
    byHeading.set(`## ${section.title}`, markdownSection({ ...section, notes }));
  }
  const heading = targetHeading(facts);
  const [, ...old] = isWhole ? [] : rowsOf(byHeading.get(heading) ?? '');
  byHeading.set(heading, targetSection(facts, sections, old));
  const tables = [...byHeading.values()].filter((part) => !isTargets(part));
  const targets = [...byHeading.values()].filter(isTargets);
  const content = [isNew ? introduction(facts, sections) : head, ...tables, ...targets];
  const charts = isOtherNode ? [] : sections.flatMap(({ chart }) => chart ?? []);
  const subtitle = `${facts.model} · ${facts.processor} · ${facts.date}`;
  const drawings = charts.map((chart) => [chart.file, barChart(chart, subtitle)]);
  return new Map([['results.md', `${content.join('\n\n')}\n`], ...drawings]);
}

/** Pages with such tables, from the root of the repository. */
export const PAGES = ['README.md', 'docs/internals/performance.md', 'docs/internals/formats.md'];

const MARKED_TABLE = /(<!-- results: (.+) -->\n)((?:\|.*\n)+)/g;

/**
 * A page with the figures of the results in its tables; figures without a result stay as they are. A comment above a
 * table names the section: `<!-- results: Saving -->` stands for the one whose heading begins so.
 */
export function refreshTables(page, results) {
  const sections = results.split(/^## /m);
  return page.replace(MARKED_TABLE, (_, comment, title, table) => {
    const section = sections.find((text) => text.startsWith(title)) ?? '';
    return `${comment}${markdownTable(refreshed(rowsOf(table), rowsOf(section)))}\n`;
  });
}

/** Index of a heading in the results. A heading may explain it: `private memory (RssAnon)` is the column `RssAnon`. */
function columnOf(heading, measuredHead) {
  const [, name] = / \((.+)\)$/.exec(heading) ?? [];
  return measuredHead.findIndex((found) => found === heading || found === name);
}

function refreshed([head, ...body], [measuredHead = [], ...measured]) {
  const plain = (cell) => cell.replaceAll('*', '');
  const columns = head.map((heading) => columnOf(heading, measuredHead));
  const rows = body.map((row) => {
    const source = measured.find(([name]) => name === plain(row[0])) ?? [];
    return row.map((cell, column) => {
      const figure = column === 0 ? undefined : source[columns[column]];
      return figure === undefined ? cell : cell === plain(cell) ? figure : `**${figure}**`;
    });
  });
  return [head, ...rows];
}
