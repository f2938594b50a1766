import type { CoveredFile } from './suite-plan.mjs';
import type { Verdict } from './suite-report.mjs';

/** A copy of the tree, and a directory for temporary files. */
export interface Lane {
  tree: string;
  temporary: string;
}

export class Suite {
  constructor(options: {
    config: string;
    projects: readonly string[];
    log: (text: string) => void;
  });
  cover(lane: Lane, records: string): Promise<CoveredFile[]>;
  judge(lane: Lane, id: number, order: readonly CoveredFile[]): Promise<Verdict>;
}
