interface Round {
  path: string;
  indexes: number[];
}

export interface CoveredFile {
  path: string;
}

export function coverageOf(entries: readonly object[]): CoveredFile[];
export function planOf(
  id: number,
  files: readonly CoveredFile[],
  siblings: readonly number[],
): { id: number; limit: number; rounds: Round[]; alone: Round[] | undefined };
