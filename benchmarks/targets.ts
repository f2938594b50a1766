/** Figures that have to be reached, each with what a rival took in the same run. */
import { cell, markdownTable, rowsOf } from './figures.js';

/** One figure that has to be reached. */
export interface Target {
  /** What is measured. */
  readonly measure: string;
  /** What has to be reached: `at most 12 ms`. */
  readonly limit: string;
  /** What was measured, a dash when it could not be. */
  readonly actual: string;
  /** What it is compared with, in the same run; may be empty. */
  readonly beside: string;
  readonly verdict: 'pass' | 'FAIL' | 'not measured';
}

/** How a figure is shown. */
type Format = (value: number) => string;

function target(
  measure: string,
  actual: number,
  [word, limit]: readonly ['at most' | 'at least', number],
  format: Format,
  beside: string,
): Target {
  const isReached = word === 'at most' ? actual <= limit : actual >= limit;
  const verdict = Number.isNaN(actual) ? 'not measured' : isReached ? 'pass' : 'FAIL';
  return {
    measure,
    limit: `${word} ${format(limit)}`,
    actual: cell(actual, format),
    beside,
    verdict,
  };
}

/** A target that is met by a figure that is not above the limit. */
export function atMost(
  measure: string,
  actual: number,
  limit: number,
  format: Format,
  beside = '',
): Target {
  return target(measure, actual, ['at most', limit], format, beside);
}

/** A target that is met by a figure that is not below the limit. */
export function atLeast(
  measure: string,
  actual: number,
  limit: number,
  format: Format,
  beside = '',
): Target {
  return target(measure, actual, ['at least', limit], format, beside);
}

/** What stands beside a target: figures by their names, those left out that were not measured. */
export function beside(format: Format, figures: Readonly<Record<string, number>>): string {
  return Object.entries(figures)
    .flatMap(([name, value]) => (Number.isNaN(value) ? [] : [`${name} ${format(value)}`]))
    .join(', ');
}

/** A limit in a release of Node: before 22, before 24, and later. */
export function ofNode(node: string, limits: Readonly<Record<20 | 22 | 24, number>>): number {
  const major = Number.parseInt(node, 10);
  return major < 22 ? limits[20] : major < 24 ? limits[22] : limits[24];
}

const HEADING = ['what', 'to reach', 'measured', 'verdict', 'beside'];

/** All targets with their verdicts as a Markdown table. */
export function markdownTargets(targets: readonly Target[]): string {
  return markdownTable([HEADING, ...targets.map(rowOf)]);
}

/** Such a table with these targets in place of those with the same names; new ones come last. */
export function replaceTargets(table: string, targets: readonly Target[]): string {
  const rows = new Map(
    rowsOf(table)
      .slice(1)
      .map((row) => [row[0], row]),
  );
  for (const target of targets) rows.set(target.measure, rowOf(target));
  return markdownTable([HEADING, ...rows.values()]);
}

function rowOf({ measure, limit, actual, verdict, beside }: Target): string[] {
  return [measure, limit, actual, verdict, beside];
}
