/** Patterns for names of tensors. */

import { globTest, type NameTest } from '../../file/hub/module-patterns.js';

/**
 * A test of whole names: names that match a filter, or all without filters, except names that match
 * one of the exclusions. `*` stands for any characters, dots among them, and `?` for one. Undefined when there are
 * neither filters nor exclusions.
 */
export function namesTest(
  filters: readonly string[],
  exclusions: readonly string[] = [],
): NameTest | undefined {
  if (filters.length + exclusions.length === 0) return undefined;
  const taken = filters.map(patternTest);
  const left = exclusions.map(patternTest);
  return (name) =>
    (taken.length === 0 || taken.some((matches) => matches(name))) &&
    !left.some((matches) => matches(name));
}

const patternTest = (pattern: string): NameTest => globTest(pattern, '?');
