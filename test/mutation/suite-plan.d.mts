/** A test file of a project. */
export interface TestFile {
  project: string;
  path: string;
}

export interface Failure extends TestFile {
  /** Of a test; undefined for a failure of the whole file. */
  id?: string;
  name?: string;
  how: string;
}

/** A test file after a run without a fault. */
export interface CoveredFile extends TestFile {
  ms: number;
  passed: number;
  failed: { id: string; name: string }[];
  isBroken: boolean;
  reached: Set<number>;
}

export interface Target {
  id: number;
  path: string;
}

type Timed = Pick<CoveredFile, 'project' | 'path' | 'ms' | 'passed' | 'reached'>;

export function recordName(project: string, path: string): string;
export function isSameFile(a: TestFile, b: TestFile): boolean;
export function limitOf(file: { ms: number }): number;
export function orderFor<T extends Timed>(
  mutant: Target,
  files: readonly T[],
  projects: readonly string[],
): T[];
export function longestFirst<T extends Target>(mutants: readonly T[], files: readonly Timed[]): T[];
