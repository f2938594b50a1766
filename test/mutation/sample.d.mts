import type { Mutant } from './mutants.mjs';

export interface Numbered extends Mutant {
  /** Counts faults that are equal otherwise. */
  occurrence: number;
}

export type Identity = Pick<Numbered, 'path' | 'place' | 'lineText' | 'fault' | 'occurrence'>;

export function keyOf(fault: Identity): string;
export function withOccurrences(mutants: readonly Mutant[]): Numbered[];
export function sampleOf(mutants: readonly Numbered[], seed: number, count: number): Numbered[];
export function sameSample(
  mutants: readonly Numbered[],
  keys: readonly string[],
): { found: Numbered[]; gone: string[] };
