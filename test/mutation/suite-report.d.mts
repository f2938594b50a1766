import type { Identity } from './sample.mjs';
import type { Failure } from './suite-plan.mjs';

export interface Verdict {
  /** Number of test files. */
  reachedBy: number;
  killedBy?: Failure | undefined;
}

export type Judged = Identity & Verdict & { line: number };

export interface Report {
  seed: number;
  total: number;
  projects: readonly string[];
  minutes: string;
  failing: readonly string[];
  gone: readonly string[];
  faults: readonly Judged[];
}

export function killsBy(
  projects: readonly string[],
  faults: readonly Verdict[],
): [names: string, count: number][];
export function formatKills(
  projects: readonly string[],
  faults: readonly Verdict[],
  total: number,
): string;
export function formatVerdict(verdict: Verdict): string;
export function pageOf(report: Report, earlier?: readonly Judged[]): string;
