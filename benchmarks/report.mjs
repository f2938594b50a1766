/** The page of results: tables of trials, verdicts, charts; and the tables of other pages that repeat its rows. */
import { barChart } from './chart.mjs';
import { markdownTable, rowsOf } from './figures.mjs';

/** A section, `{ title, rows, notes, targets, chart }`, as Markdown. */
export function markdownSection({ title, rows, notes }) {
  const list = notes.map((note) => `- ${note}`).join('\n');
  return [`## ${title}`, markdownTable(rows), ...(list === '' ? [] : [list])].join('\n\n');
}

/** What every ratio depends on; on the page because the figures alone mislead. */
const CAVEATS = `The lazy figures ("open", "all handed out") stand beside the figures with every byte read: a mapping is
open at once because it has not read anything yet. The ratios of "every byte" depend on the size of the
model, on the page cache, and on the reader that is compared: readers that map are as fast as this
package; readers that copy need the time of the copy and as much private memory as the file has. Cold,
the disk decides.`;

/** What figures depend on, by name, such as `date`, `processor` and `model`, as a Markdown list. */
export function markdownFacts(facts) {
  return Object.entries(facts)
    .map(([name, value]) => `- ${name}: ${value}`)
    .join('\n');
}

const TARGET_HEAD = ['what', 'to reach', 'measured', 'verdict', 'beside'];

/** A heading for each major version. */
const targetHeading = (node) => `## Targets on Node ${Number.parseInt(node, 10)}`;

/** The targets of a run with their verdicts, under a heading that names its Node. */
export function targetSection({ node, date, model }, sections) {
  const table = markdownTable([TARGET_HEAD, ...sections.flatMap(({ targets }) => targets)]);
  return `${targetHeading(node)}\n\nNode ${node.split(',')[0]}, ${date}, ${model}:\n\n${table}`;
}

const partsOf = (page) => page.trimEnd().split(/\n\n(?=## )/);

/** The page with the targets of one more Node, in place of those that it had of this one. */
export function addTargets(page, facts, sections) {
  const others = partsOf(page).filter((part) => !part.startsWith(targetHeading(facts.node)));
  return `${[...others, targetSection(facts, sections)].join('\n\n')}\n`;
}

/**
 * The page with these sections in place of those with the same titles, and their targets among those of the
 * same Node. New sections come before the targets. Each says that it is of another run than the rest.
 */
export function replaceSections(page, facts, sections) {
  const parts = partsOf(page);
  const { date, node } = facts;
  for (const section of sections) {
    const apart = `measured apart from the rest: ${date}, Node ${node.split(',')[0]}`;
    const text = markdownSection({ ...section, notes: [...section.notes, apart] });
    const place = parts.findIndex((part) => part.startsWith(`## ${section.title}\n`));
    const end = parts.findIndex((part) => part.startsWith('## Targets on Node '));
    if (place >= 0) parts[place] = text;
    else parts.splice(end < 0 ? parts.length : end, 0, text);
  }
  const place = parts.findIndex((part) => part.startsWith(`${targetHeading(node)}\n`));
  if (place < 0) return addTargets(`${parts.join('\n\n')}\n`, facts, sections);
  parts[place] = parts[place].replace(/^\|[\s\S]*$/m, (table) => {
    const [, ...old] = rowsOf(table);
    const rows = [...old, ...sections.flatMap(({ targets }) => targets)];
    return markdownTable([TARGET_HEAD, ...new Map(rows.map((row) => [row[0], row])).values()]);
  });
  return `${parts.join('\n\n')}\n`;
}

/** A whole run as files by their names: `results.md` and the charts that it shows. */
export function resultFiles(facts, sections) {
  const charts = sections.flatMap(({ chart }) => chart ?? []);
  const parts = [
    '# Results',
    markdownFacts(facts),
    CAVEATS,
    ...charts.map(({ file, title }) => `![${title}](${file})`),
    ...sections.map(markdownSection),
    targetSection(facts, sections),
  ];
  const subtitle = `${facts.model} · ${facts.processor} · ${facts.date}`;
  const drawings = charts.map((chart) => [chart.file, barChart(chart, subtitle)]);
  return new Map([['results.md', `${parts.join('\n\n')}\n`], ...drawings]);
}

/** Pages with such tables, from the root of the repository. */
export const PAGES = ['README.md', 'docs/performance.md', 'docs/formats.md'];

const MARKED_TABLE = /(<!-- results: (.+) -->\n)((?:\|.*\n)+)/g;

/**
 * A page with the figures of the results in its tables; what the results do not have stays as it is. A comment above
 * a table names the section: `<!-- results: Saving -->` stands for the one whose heading begins so.
 */
export function refreshTables(page, results) {
  const sections = results.split(/^## /m);
  return page.replace(MARKED_TABLE, (_, comment, title, table) => {
    const section = sections.find((text) => text.startsWith(title)) ?? '';
    return `${comment}${markdownTable(refreshed(rowsOf(table), rowsOf(section)))}\n`;
  });
}

function refreshed([head, ...body], [measuredHead = [], ...measured]) {
  const plain = (cell) => cell.replaceAll('*', '');
  const rows = body.map((row) => {
    const source = measured.find(([name]) => name === plain(row[0])) ?? [];
    return row.map((cell, column) => {
      const figure = column === 0 ? undefined : source[measuredHead.indexOf(head[column])];
      return figure === undefined ? cell : cell === plain(cell) ? figure : `**${figure}**`;
    });
  });
  return [head, ...rows];
}
