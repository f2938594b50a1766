/** What trials hand back, and how it is shown: tables, verdicts, charts, the page of results. */
import { barChart, type Chart } from './chart.js';
import { markdownTable, type Rows } from './figures.js';
import { markdownTargets, replaceTargets, type Target } from './targets.js';

/** Result of one trial. */
export interface Section {
  readonly title: string;
  readonly rows: Rows;
  /** Lines below the table: what was not measured, and why. */
  readonly notes: readonly string[];
  readonly targets: readonly Target[];
  readonly chart?: Chart;
}

/** A section as Markdown. */
export function markdownSection({ title, rows, notes }: Section): string {
  const list = notes.map((note) => `- ${note}`).join('\n');
  return [`## ${title}`, markdownTable(rows), ...(list === '' ? [] : [list])].join('\n\n');
}

/** What every ratio depends on; on the page because the figures alone mislead. */
const CAVEATS = `The lazy figures ("open", "all handed out") stand beside the figures with every byte read: a mapping is
open at once because it has not read anything yet. The ratios of "every byte" depend on the size of the
model, on the page cache, and on the reader that is compared: readers that map are as fast as this
package; readers that copy need the time of the copy and as much private memory as the file has. Cold,
the disk decides.`;

/** What figures depend on, by name: `date`, `processor`, `model` and others. */
export type Facts = Readonly<Record<string, string>>;

/** The facts as a Markdown list. */
export function markdownFacts(facts: Facts): string {
  return Object.entries(facts)
    .map(([name, value]) => `- ${name}: ${value}`)
    .join('\n');
}

/** The targets of a run with their verdicts, under a heading that names its Node. */
export function targetSection(facts: Facts, sections: readonly Section[]): string {
  const targets = sections.flatMap(({ targets }) => targets);
  const { node = '', date, model } = facts;
  const [version] = node.split(',');
  return `${targetHeading(node)}\n\nNode ${version}, ${date}, ${model}:\n\n${markdownTargets(targets)}`;
}

/** A heading for each major version. */
function targetHeading(node: string): string {
  return `## Targets on Node ${Number.parseInt(node, 10)}`;
}

/** The page of results with the targets of one more Node, in place of those that it had of this one. */
export function addTargets(page: string, facts: Facts, sections: readonly Section[]): string {
  const heading = targetHeading(facts['node'] ?? '');
  const others = page
    .trimEnd()
    .split(/\n\n(?=## )/)
    .filter((part) => !part.startsWith(heading));
  return `${[...others, targetSection(facts, sections)].join('\n\n')}\n`;
}

/**
 * The page with these sections in place of those with the same titles, and their targets among those of the
 * same Node. New sections come before the targets. Each says that it is of another run than the rest.
 */
export function replaceSections(page: string, facts: Facts, sections: readonly Section[]): string {
  const parts = page.trimEnd().split(/\n\n(?=## )/);
  const { date, node = '' } = facts;
  const heading = targetHeading(node);
  for (const section of sections) {
    const apart = `measured apart from the rest: ${date}, Node ${node.split(',')[0]}`;
    const text = markdownSection({ ...section, notes: [...section.notes, apart] });
    const place = parts.findIndex((part) => part.startsWith(`## ${section.title}\n`));
    const end = parts.findIndex((part) => part.startsWith('## Targets on Node '));
    if (place >= 0) parts[place] = text;
    else parts.splice(end < 0 ? parts.length : end, 0, text);
  }
  const targets = sections.flatMap(({ targets }) => targets);
  const place = parts.findIndex((part) => part.startsWith(`${heading}\n`));
  if (place < 0) return addTargets(`${parts.join('\n\n')}\n`, facts, sections);
  parts[place] = (parts[place] ?? '').replace(/^\|[\s\S]*$/m, (table) =>
    replaceTargets(table, targets),
  );
  return `${parts.join('\n\n')}\n`;
}

/** A whole run as files by their names: `results.md` and the charts that it shows. */
export function resultFiles(facts: Facts, sections: readonly Section[]): Map<string, string> {
  const charts = sections.flatMap(({ chart }) => (chart === undefined ? [] : [chart]));
  const parts = [
    '# Results',
    markdownFacts(facts),
    CAVEATS,
    ...charts.map(({ file, title }) => `![${title}](${file})`),
    ...sections.map(markdownSection),
    targetSection(facts, sections),
  ];
  const subtitle = ['model', 'processor', 'date'].map((name) => facts[name]).join(' · ');
  const drawings = charts.map((chart) => [chart.file, barChart(chart, subtitle)] as const);
  return new Map([['results.md', `${parts.join('\n\n')}\n`], ...drawings]);
}
