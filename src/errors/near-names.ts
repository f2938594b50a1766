/** Ranks names by likeness to an unknown one. */

/** Limits on the names that are compared: a hint is not worth much time. */
const MAX_COMPARED_NAMES = 20_000;
const MAX_COMPARED_LENGTH = 200;

/** Most names in an error. */
const MAX_NEAR_NAMES = 3;

/** Share of the longer name that must agree at the two ends. */
const LEAST_AGREEMENT = 0.6;

function agreement(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length);
  let start = 0;
  while (start < shorter && a[start] === b[start]) start++;
  let end = 0;
  while (end < shorter - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  return (start + end) / Math.max(a.length, b.length);
}

/**
 * Returns the names most like `name`, best first, at most three: those that agree with it in most characters at both
 * ends, ignoring case. Leaves out names above 200 characters.
 */
export function nearNames(name: string, names: Iterable<string>): string[] {
  if (name.length > MAX_COMPARED_LENGTH) return [];
  const wanted = name.toLowerCase();
  const found: { name: string; score: number }[] = [];
  let compared = 0;
  for (const candidate of names) {
    if (compared++ === MAX_COMPARED_NAMES) break;
    if (candidate.length > MAX_COMPARED_LENGTH) continue;
    const score = agreement(wanted, candidate.toLowerCase());
    if (score >= LEAST_AGREEMENT) found.push({ name: candidate, score });
  }
  found.sort((a, b) => b.score - a.score);
  return found.slice(0, MAX_NEAR_NAMES).map((entry) => entry.name);
}
