/** Patterns for names of tensors. */

/**
 * A test of whole names: those that match one of the filters, or all when there are none, without those that match
 * one of the exclusions. Undefined when there is neither.
 */
export function namesTest(
  filters: readonly string[],
  exclusions: readonly string[] = [],
): ((name: string) => boolean) | undefined {
  if (filters.length + exclusions.length === 0) return undefined;
  const taken = filters.map(globTest);
  const left = exclusions.map(globTest);
  return (name) =>
    (taken.length === 0 || taken.some((matches) => matches(name))) &&
    !left.some((matches) => matches(name));
}

/**
 * A test of whole names: `*` stands for any characters, dots among them, and `?` for one. It takes no more
 * steps than the product of both lengths, whatever the pattern.
 */
export function globTest(pattern: string): (name: string) => boolean {
  return (name) => {
    let at = 0;
    let inPattern = 0;
    // Behind the last `*`: where it is, and what it stands for so far ends.
    let star = -1;
    let starEnd = 0;
    while (at < name.length) {
      const wanted = pattern[inPattern];
      if (wanted === '*') {
        star = inPattern++;
        starEnd = at;
      } else if (wanted === '?' || wanted === name[at]) {
        inPattern++;
        at++;
      } else if (star >= 0) {
        inPattern = star + 1;
        at = ++starEnd;
      } else {
        return false;
      }
    }
    while (pattern[inPattern] === '*') inPattern++;
    return inPattern === pattern.length;
  };
}
