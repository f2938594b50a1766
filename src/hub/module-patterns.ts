/** Patterns of module names in a model's configuration. They are untrusted, and never become a RegExp. */

/** A test of names, prepared once. */
export type NameTest = (name: string) => boolean;

/** Regular expressions beyond this subset match nothing, as on the Hub. */
const UNKNOWN_SYNTAX = /[\\+?()[\]{}|^$]/;

/** A pattern in which `*` stands for any number of characters, or none. */
export function globTest(pattern: string): NameTest {
  const [start = '', ...rest] = pattern.split('*');
  const end = rest.pop();
  if (end === undefined) return (name) => name === pattern;
  const middle = rest.filter((part) => part !== '');
  return (name) => {
    if (!name.startsWith(start) || !name.endsWith(end)) return false;
    const last = name.length - end.length;
    let at = start.length;
    for (const part of middle) {
      const found = name.indexOf(part, at);
      if (found === -1) return false;
      at = found + part.length;
      if (at > last) return false;
    }
    return at <= last;
  };
}

/** A target of compressed-tensors: a module's name, or `re:` and a regex for the start of a name. */
export function targetTest(target: string): NameTest {
  if (!target.startsWith('re:')) return (name) => name === target;
  const regex = target.slice(3).replace(/^\^/, '');
  const open = regex.endsWith('$') ? regex.slice(0, -1) : `${regex}.*`;
  const glob = open.replaceAll('.*', '*').replaceAll('\\.', '.');
  return UNKNOWN_SYNTAX.test(glob) ? () => false : globTest(glob);
}

/** A module that is not converted: a part of its name, or a pattern with `*` for the whole name. */
export function exclusionTest(pattern: string): NameTest {
  return pattern.includes('*') ? globTest(pattern) : (name) => name.includes(pattern);
}
