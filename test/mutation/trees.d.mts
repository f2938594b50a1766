import type { Mutant } from './mutants.mjs';

export function copyAll(source: string, target: string): void;
export function copyTree(source: string, target: string): void;
export function insertFaults(
  tree: string,
  mutants: readonly (Mutant & { id: number })[],
  build: string,
): void;
