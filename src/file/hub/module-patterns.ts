/** Patterns of names. Those of a model's configuration are untrusted; none becomes a RegExp. */

/** A test of names, prepared once. */
export type NameTest = (name: string) => boolean;

/** Regular expressions beyond this subset match nothing, as on the Hub. */
const UNKNOWN_SYNTAX = /[\\+?()[\]{}|^$]/;

/**
 * A test of whole names: `*` stands for any characters, dots among them, and `single` for one. It takes no more
 * steps than the product of both lengths, whatever the pattern.
 *
 * @param single a character, such as `?`; without it only `*` is special
 */
export function globTest(pattern: string, single = ''): NameTest {
  const [start = '', ...middle] = pattern.split('*');
  const end = middle.pop();
  const { isAt, find } =
    single !== '' && pattern.includes(single) ? partsWith(single) : PLAIN_PARTS;
  if (end === undefined) return (name) => name.length === start.length && isAt(name, start, 0);
  return (name) => {
    const last = name.length - end.length;
    if (start.length > last || !isAt(name, start, 0) || !isAt(name, end, last)) return false;
    let at = start.length;
    for (const part of middle) {
      const found = find(name, part, at);
      if (found === -1) return false;
      at = found + part.length;
    }
    return at <= last;
  };
}

/** Looks for the parts of a pattern between its `*`, within the name. */
interface PartSearch {
  isAt(name: string, part: string, at: number): boolean;
  /** The first place from `from` on; -1 if absent. */
  find(name: string, part: string, from: number): number;
}

const PLAIN_PARTS: PartSearch = {
  isAt: (name, part, at) => name.startsWith(part, at),
  find: (name, part, from) => name.indexOf(part, from),
};

/** The search for parts in which one character stands for any other. */
function partsWith(single: string): PartSearch {
  const isAt = (name: string, part: string, at: number): boolean => {
    for (let i = 0; i < part.length; i++) {
      if (part[i] !== single && part[i] !== name[at + i]) return false;
    }
    return true;
  };
  const find = (name: string, part: string, from: number): number => {
    for (let at = from; at + part.length <= name.length; at++) if (isAt(name, part, at)) return at;
    return -1;
  };
  return { isAt, find };
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
