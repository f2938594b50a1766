/** Ranks names by likeness to an unknown one. */

/** Limits on the names that are compared: more names than DeepSeek-V3 has. */
export const MAX_COMPARED_NAMES = 100_000;
export const MAX_COMPARED_LENGTH = 200;

/** Maximum number of names in an error. */
export const MAX_NEAR_NAMES = 3;

/** Share of the longer name that must agree at the two ends. */
const LEAST_AGREEMENT = 0.6;

/** Shorter texts are in too many names by chance. Whole parts between dots may be as short. */
const MIN_CONTAINED_LENGTH = 3;

function agreement(a: string, b: string): number {
  const shorter = Math.min(a.length, b.length);
  let start = 0;
  while (start < shorter && a[start] === b[start]) start++;
  let end = 0;
  while (end < shorter - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++;
  return (start + end) / Math.max(a.length, b.length);
}

/** Whether a text is in a name and ends at its dots on both sides. */
function hasParts(name: string, text: string): boolean {
  return `.${name}.`.includes(`.${text}.`);
}

/** Zero for unlike names; above 1 where one contains the other, above 2 as whole parts, above 3 for the same ends. */
function likeness(wanted: string, candidate: string): number {
  const alike = agreement(wanted, candidate);
  if (alike >= LEAST_AGREEMENT) return 3 + alike;
  if (wanted === '' || candidate === '') return 0;
  if (!candidate.includes(wanted) && !wanted.includes(candidate)) return 0;
  const longer = Math.max(wanted.length, candidate.length);
  const share = Math.min(wanted.length, candidate.length) / longer;
  if (hasParts(candidate, wanted) || hasParts(wanted, candidate)) return 2 + share;
  const isContained = wanted.length >= MIN_CONTAINED_LENGTH && candidate.includes(wanted);
  return isContained ? 1 + share : 0;
}

/**
 * Returns the names most like `name`, best first, at most three: those that agree with it in most characters at both
 * ends, then those that contain it, ignoring case. Leaves out names above 200 characters.
 */
export function nearNames(name: string, names: Iterable<string>): string[] {
  if (name.length > MAX_COMPARED_LENGTH) return [];
  const wanted = name.toLowerCase();
  const found: { name: string; score: number }[] = [];
  let compared = 0;
  for (const candidate of names) {
    if (compared++ === MAX_COMPARED_NAMES) break;
    if (candidate.length > MAX_COMPARED_LENGTH) continue;
    const score = likeness(wanted, candidate.toLowerCase());
    if (score <= (found[MAX_NEAR_NAMES - 1]?.score ?? 0)) continue;
    // Behind those that are as near.
    const place = found.findIndex((other) => other.score < score);
    found.splice(place === -1 ? found.length : place, 0, { name: candidate, score });
    found.length = Math.min(found.length, MAX_NEAR_NAMES);
  }
  return found.map((entry) => entry.name);
}

/** Suggests the names most like an unknown one, each with a prefix; empty when none is like it. */
export function nearHint(name: unknown, names: Iterable<string>, prefix = ''): string {
  const near = typeof name === 'string' ? nearNames(name, names) : [];
  return near.length === 0 ? '' : `; did you mean ${near.map((one) => prefix + one).join(', ')}?`;
}
