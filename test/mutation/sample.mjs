/** A seeded sample of the faults of all sources. */
import { createHash } from 'node:crypto';

/** Identifies a fault in every revision: unlike a line number, no part of it changes with unrelated code. */
export function keyOf({ path, place, lineText, fault, occurrence }) {
  return JSON.stringify([path, place, lineText, fault, occurrence]);
}

/** Numbers faults that are equal in everything else, in the order of the source. */
export function withOccurrences(mutants) {
  const counts = new Map();
  return mutants.map((mutant) => {
    const key = keyOf({ ...mutant, occurrence: 0 });
    const occurrence = counts.get(key) ?? 0;
    counts.set(key, occurrence + 1);
    return { ...mutant, occurrence };
  });
}

/**
 * Chooses `count` faults. The order is that of hashes of the keys, so a change to a line adds or removes the faults of
 * this line, and keeps all others of the sample.
 */
export function sampleOf(mutants, seed, count) {
  const rankOf = (mutant) =>
    createHash('sha256')
      .update(`${seed} ${keyOf(mutant)}`)
      .digest('hex');
  return mutants
    .map((mutant) => [rankOf(mutant), mutant])
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .slice(0, count)
    .map(([, mutant]) => mutant);
}

/** Finds the faults of an earlier report in the sources. Returns them, and the keys of those that are gone. */
export function sameSample(mutants, keys) {
  const byKey = new Map(mutants.map((mutant) => [keyOf(mutant), mutant]));
  const [found, gone] = [[], []];
  for (const key of keys) {
    const mutant = byKey.get(key);
    if (mutant === undefined) gone.push(key);
    else found.push(mutant);
  }
  return { found, gone };
}
