export interface Mutant {
  path: string;
  line: number;
  lineText: string;
  /** The names of the declarations around it. */
  place: string;
  start: number;
  end: number;
  after: string;
  fault: string;
  comparison?: 'truth' | 'value' | undefined;
}

export interface Equivalent {
  in: string;
  line: string;
  /** Those of that line that are the same program, for one reason. */
  faults: string[];
  reason: string;
}

export function mutantsOf(path: string, text: string): Mutant[];
export function withSwitches(
  text: string,
  mutants: readonly (Mutant & { id: number })[],
  isComparing?: boolean,
): string;
export function isKnown(equivalents: readonly Equivalent[], mutant: Mutant): boolean;
