/** Names of tensors in narrow columns: where they wrap, what differs between them, and what a search matched. */

/** A part of a name, from one position to before another. */
type Span = readonly [begin: number, end: number];

/** What is common to names: letters at their beginning and at their end. */
export interface CommonEnds {
  readonly prefix: number;
  readonly suffix: number;
}

/** A part of a name that looks alike. */
export interface NamePart {
  readonly text: string;
  /** Whether the search matched it, whether names differ in it, or whether it is common to all. */
  readonly kind: 'match' | 'own' | 'common';
}

const SEPARATOR = /[._/]/;

/** The beginning and the end that names share, up to separators: `layers.` of `layers.10.w` and `layers.12.w`. */
export function commonEnds(names: Iterable<string>): CommonEnds {
  let [head, tail, count] = ['', '', 0];
  for (const name of names) {
    if (count++ === 0) [head, tail] = [name, name];
    while (!name.startsWith(head)) head = head.slice(0, -1);
    while (!name.endsWith(tail)) tail = tail.slice(1);
    if (head === '' && tail === '') break;
  }
  if (count < 2) return { prefix: 0, suffix: 0 };
  const first = tail.search(SEPARATOR);
  return {
    prefix: head.replace(/[^._/]*$/, '').length,
    suffix: first === -1 ? 0 : tail.length - first,
  };
}

/** Where the words of a search are in a name, in order and without overlaps. */
export function matchesIn(name: string, find: string): readonly Span[] {
  const text = name.toLowerCase();
  const spans: Span[] = [];
  for (const word of find.toLowerCase().split(/\s+/).filter(Boolean)) {
    for (let at = text.indexOf(word); at !== -1; at = text.indexOf(word, at + word.length))
      spans.push([at, at + word.length]);
  }
  spans.sort(([a], [b]) => a - b);
  const merged: Span[] = [];
  for (const [begin, end] of spans) {
    const last = merged.at(-1);
    if (last === undefined || begin > last[1]) merged.push([begin, end]);
    else merged[merged.length - 1] = [last[0], Math.max(last[1], end)];
  }
  return merged;
}

/** The ends of the lines of a name: after separators, and not inside of matches. A longer part wraps where it must. */
export function lineEnds(name: string, columns: number, matches: readonly Span[] = []): number[] {
  const ends: number[] = [];
  const separatorBefore = (at: number): number =>
    Math.max(name.lastIndexOf('.', at), name.lastIndexOf('_', at), name.lastIndexOf('/', at));
  const isInside = (at: number): boolean => matches.some(([begin, end]) => at > begin && at < end);
  let begin = 0;
  while (name.length - begin > columns) {
    let at = separatorBefore(begin + columns - 1);
    while (at >= begin && isInside(at + 1)) at = at === 0 ? -1 : separatorBefore(at - 1);
    begin = at >= begin ? at + 1 : begin + columns;
    ends.push(begin);
  }
  return [...ends, name.length];
}

/** The lines of a name as parts. */
export function nameLines(
  name: string,
  columns: number,
  matches: readonly Span[],
  { prefix, suffix }: CommonEnds,
): NamePart[][] {
  const kindAt = (at: number): NamePart['kind'] => {
    if (matches.some(([begin, end]) => at >= begin && at < end)) return 'match';
    return at < prefix || at >= name.length - suffix ? 'common' : 'own';
  };
  let at = 0;
  return lineEnds(name, columns, matches).map((end) => {
    const cuts = [prefix, name.length - suffix, ...matches.flat(), end];
    const parts: NamePart[] = [];
    while (at < end) {
      const next = Math.min(...cuts.filter((cut) => cut > at));
      parts.push({ text: name.slice(at, next), kind: kindAt(at) });
      at = next;
    }
    return parts;
  });
}
