/** Writes what a whole run has measured: one JSON file, one Markdown page, charts. */
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { formatByteSize, formatDuration } from './byte-size.js';
import { type Bars, barChart, type ChartText, type Series } from './chart.js';
import { OURS } from './drivers.js';
import { SOURCE_FOLDER } from './places.js';
import { markdownSection, markdownTargets, type Section } from './report.js';

/** A section with the name of its trial and how long that took. */
export interface Measured extends Section {
  readonly name: string;
  readonly seconds: number;
}

/** Everything that a run has found. */
export interface Results {
  readonly machine: Readonly<Record<string, string>>;
  readonly trials: readonly Measured[];
}

/** One chart of one trial. */
interface ChartPlan {
  readonly trial: string;
  readonly series: readonly Series[];
  readonly about: Omit<ChartText, 'subtitle' | 'emphasis'>;
}

const READING: readonly Series[] = [
  { name: 'handedOut', title: 'open, all handed out' },
  { name: 'everyByte', title: '… and every byte read' },
];

const CHARTS: readonly ChartPlan[] = [
  {
    trial: 'every-byte',
    series: READING,
    about: { title: 'A checkpoint in the page cache', format: formatDuration },
  },
  {
    trial: 'cold',
    series: READING,
    about: { title: 'A checkpoint on the disk', format: formatDuration },
  },
  {
    trial: 'memory',
    series: [
      { name: 'alone', title: 'one process' },
      { name: 'together', title: 'four processes' },
    ],
    about: { title: 'Private memory (RssAnon) for a checkpoint', format: formatByteSize },
  },
];

/** What every ratio above depends on; part of the page because the figures alone mislead. */
const CAVEATS = `The lazy figures ("open", "all handed out") and the figures with every byte read stand side by
side on purpose: a mapping is open at once because it has not read anything yet. The ratios of
"every byte" depend on the size of the model, on the file being in the page cache or not, and on the
reader it is compared with: readers that map read at the same speed as this package, readers that
copy take the time of the copy and as much private memory as the file has. Cold, the disk decides.`;

/** The charts of a run by the names of their files. */
export function drawCharts({ machine, trials }: Results): Map<string, string> {
  const charts = new Map<string, string>();
  for (const { trial, series, about } of CHARTS) {
    const bars = trials.find(({ name }) => name === trial)?.bars;
    if (bars === undefined) continue;
    const last = series.at(-1)?.name ?? '';
    const value = (line: Bars): number => line.values[last] ?? Number.NaN;
    const sorted = [...bars].sort((a, b) => value(a) - value(b));
    const subtitle = `${machine['model']} · ${machine['processor']} · ${machine['date']}`;
    const text = { ...about, subtitle, emphasis: OURS.name };
    charts.set(`${trial}.svg`, barChart(sorted, series, text));
  }
  return charts;
}

/** The whole run as a page. */
export function resultsPage({ machine, trials }: Results, charts: Iterable<string>): string {
  const facts = Object.entries(machine).map(([key, value]) => `- ${key}: ${value}`);
  const images = Array.from(charts, (name) => `![${name.replace('.svg', '')}](${name})`);
  const parts = [
    '# Results',
    facts.join('\n'),
    CAVEATS,
    ...images,
    markdownTargets(trials.flatMap(({ targets }) => targets)),
    ...trials.map(markdownSection),
  ];
  return `${parts.join('\n\n')}\n`;
}

/** Writes the files into `benchmarks/results`. */
export async function saveResults(results: Results): Promise<void> {
  const folder = join(SOURCE_FOLDER, 'results');
  await mkdir(folder, { recursive: true });
  const charts = drawCharts(results);
  const files = new Map(charts)
    .set('results.json', `${JSON.stringify(results, null, 1)}\n`)
    .set('results.md', resultsPage(results, charts.keys()));
  for (const [name, content] of files) await writeFile(join(folder, name), content);
}
