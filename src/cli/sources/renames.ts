/** Renames of the command line: `PATTERN=>NEW`, in which `*` stands for any characters. */

import { readFileSync } from 'node:fs';

const ARROW = '=>';

/** A rule that cannot be used. */
export class RenameError extends Error {}

/** Gives a name its new form; undefined when it does not match. */
export type Rule = (name: string) => string | undefined;

/**
 * Returns a function that renames by the first rule that matches the whole name; undefined without rules. The first `*`
 * of the new name is what the first `*` of the pattern stands for, and so on; each stands for as little as can be.
 * `@FILE` is a file with a rule on each line.
 *
 * @throws RenameError for a rule without an arrow, or with more `*` after it; errors of reading the file
 */
export function renamer(rules: readonly string[]): ((name: string) => string) | undefined {
  const rule = renameRule(rules);
  return rule && ((name) => rule(name) ?? name);
}

/** As {@link renamer}, with undefined for names that no rule matches. */
export function renameRule(rules: readonly string[]): Rule | undefined {
  const all = rules.flatMap((rule) => (rule.startsWith('@') ? linesOf(rule.slice(1)) : [rule]));
  if (all.length === 0) return undefined;
  const parsed = all.map(ruleOf);
  return (name) => {
    for (const rule of parsed) {
      const found = rule(name);
      if (found !== undefined) return found;
    }
    return undefined;
  };
}

function linesOf(path: string): string[] {
  return readFileSync(path, 'utf8')
    .split(/\r?\n/)
    .filter((line) => line.trim() !== '');
}

function ruleOf(text: string): Rule {
  const at = text.indexOf(ARROW);
  if (at < 0) throw new RenameError(`expected 'PATTERN=>NEW', found '${text}'`);
  const pattern = text.slice(0, at).trim().split('*');
  const parts = text
    .slice(at + ARROW.length)
    .trim()
    .split('*');
  if (parts.length > pattern.length) {
    throw new RenameError(`expected as many * in the pattern as in the new name, found '${text}'`);
  }
  return (name) => {
    const groups = groupsOf(name, pattern);
    return groups && parts.map((part, i) => (i === 0 ? '' : groups[i - 1]) + part).join('');
  };
}

/** What the stars between the texts stand for, each as little as can be; undefined when the name does not match. */
function groupsOf(name: string, texts: readonly string[]): string[] | undefined {
  const [first = '', ...others] = texts;
  if (!name.startsWith(first)) return undefined;
  if (others.length === 0) return name === first ? [] : undefined;
  const last = others.pop() as string;
  const end = name.length - last.length;
  const groups: string[] = [];
  let at = first.length;
  for (const text of others) {
    const next = name.indexOf(text, at);
    if (next < 0) return undefined;
    groups.push(name.slice(at, next));
    at = next + text.length;
  }
  if (end < at || !name.endsWith(last)) return undefined;
  return [...groups, name.slice(at, end)];
}
