/** What trials hand back, and how it is shown: tables, verdicts, charts, the page of results. */
import { barChart, type Chart } from './chart.js';
import { markdownTable, type Rows } from './figures.js';

/** One figure that has to be reached. */
export interface Target {
  /** What is required, with the limit. */
  readonly text: string;
  /** What was measured; NaN when it could not be. */
  readonly actual: number;
  readonly passed: boolean;
}

/** Result of one trial. */
export interface Section {
  readonly title: string;
  readonly rows: Rows;
  /** Lines below the table: what was not measured, and why. */
  readonly notes: readonly string[];
  readonly targets: readonly Target[];
  readonly chart?: Chart;
}

/** A target that is met by a figure that is not above the limit. */
export function atMost(text: string, actual: number, limit: number): Target {
  return { text, actual, passed: actual <= limit };
}

/** A target that is met by a figure that is not below the limit. */
export function atLeast(text: string, actual: number, limit: number): Target {
  return { text, actual, passed: actual >= limit };
}

/** A section as Markdown. */
export function markdownSection({ title, rows, notes }: Section): string {
  const list = notes.map((note) => `- ${note}`).join('\n');
  return [`## ${title}`, markdownTable(rows), ...(list === '' ? [] : [list])].join('\n\n');
}

/** All targets with their verdicts as a Markdown table. */
export function markdownTargets(targets: readonly Target[]): string {
  const rows = targets.map(({ text, actual, passed }) => {
    if (Number.isNaN(actual)) return [text, '–', 'not measured'];
    return [text, String(Number(actual.toPrecision(3))), passed ? 'pass' : 'FAIL'];
  });
  return `## Targets\n\n${markdownTable([['target', 'measured', 'verdict'], ...rows])}`;
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

/** A whole run as files by their names: `results.md` and the charts that it shows. */
export function resultFiles(facts: Facts, sections: readonly Section[]): Map<string, string> {
  const charts = sections.flatMap(({ chart }) => (chart === undefined ? [] : [chart]));
  const parts = [
    '# Results',
    markdownFacts(facts),
    CAVEATS,
    ...charts.map(({ file, title }) => `![${title}](${file})`),
    markdownTargets(sections.flatMap(({ targets }) => targets)),
    ...sections.map(markdownSection),
  ];
  const subtitle = ['model', 'processor', 'date'].map((name) => facts[name]).join(' · ');
  const drawings = charts.map((chart) => [chart.file, barChart(chart, subtitle)] as const);
  return new Map([['results.md', `${parts.join('\n\n')}\n`], ...drawings]);
}
