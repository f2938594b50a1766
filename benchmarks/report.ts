/** What a trial hands back, and how it is printed. */
import type { Bars } from './chart.js';
import { markdownTable } from './table.js';

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
  /** Heading and rows of its table. */
  readonly rows: readonly (readonly string[])[];
  /** Lines below the table: what was not measured, and why. */
  readonly notes: readonly string[];
  readonly targets: readonly Target[];
  /** What a chart shows of it, if there is one. */
  readonly bars?: readonly Bars[];
  /** Every single measurement, for the JSON file. */
  readonly measurements: unknown;
}

/** A target that is met by a figure that is not above the limit. */
export function atMost(text: string, actual: number, limit: number): Target {
  return { text, actual, passed: actual <= limit };
}

/** A target that is met by a figure that is not below the limit. */
export function atLeast(text: string, actual: number, limit: number): Target {
  return { text, actual, passed: actual >= limit };
}

function verdict({ actual, passed }: Target): string {
  if (Number.isNaN(actual)) return 'not measured';
  return passed ? 'pass' : 'FAIL';
}

/** A section as Markdown. */
export function markdownSection(section: Section): string {
  const parts = [`## ${section.title}`];
  if (section.rows.length > 1) parts.push(markdownTable(section.rows));
  if (section.notes.length > 0) parts.push(section.notes.map((note) => `- ${note}`).join('\n'));
  return parts.join('\n\n');
}

/** All targets with their verdicts as a Markdown table. */
export function markdownTargets(targets: readonly Target[]): string {
  const rows = targets.map((target) => {
    const actual = Number.isNaN(target.actual) ? '–' : String(Number(target.actual.toPrecision(3)));
    return [target.text, actual, verdict(target)];
  });
  return `## Targets\n\n${markdownTable([['target', 'measured', 'verdict'], ...rows])}`;
}
