/** How the configurations of two models differ, key by key. */

/** A value as JSON, and the part of it that a table shows. */
export interface ConfigValue {
  readonly json: string;
  readonly excerpt: string;
}

/** A key with two values; null where one configuration lacks the key. */
export interface ConfigRow {
  readonly key: string;
  readonly before: ConfigValue | null;
  readonly after: ConfigValue | null;
}

/** Two configurations side by side. */
export interface ConfigDifference {
  /** The first of the keys that differ, in the order of the files. */
  readonly rows: readonly ConfigRow[];
  /** The number of keys that differ, and of those that don't. */
  readonly differing: number;
  readonly same: number;
}

/** Limits for untrusted files: rows, and characters of a key, an excerpt and a value. */
const MAX_ROWS = 200;
const MAX_EXCERPT = 200;
const MAX_JSON = 10_000;

/** Limits of what is written of a value to find where it differs: characters, and levels. */
const MAX_WRITTEN = 1_000_000;
const MAX_LEVELS = 100;

/** Characters before the first difference. */
const CONTEXT = 40;

/** Objects in objects, such as `rope_scaling`, have a row for every key down to here. */
const MAX_DEPTH = 4;

type Fields = Readonly<Record<string, unknown>>;

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** JSON in one line, with spaces to wrap at and sorted keys. */
function jsonOf(value: unknown): string {
  let text = '';
  const write = (one: unknown, level: number): void => {
    if (typeof one !== 'object' || one === null) {
      text += JSON.stringify(one);
      return;
    }
    const isList = Array.isArray(one);
    text += isList ? '[' : '{';
    const items = isList ? one.entries() : Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1));
    let separator = '';
    for (const [key, item] of items) {
      if (level === MAX_LEVELS || text.length > MAX_WRITTEN) {
        text += '…';
        break;
      }
      text += isList ? separator : `${separator}${JSON.stringify(key)}: `;
      write(item, level + 1);
      separator = ', ';
    }
    text += isList ? ']' : '}';
  };
  write(value, 0);
  return text;
}

/** Whether two values have the same JSON but for the order of keys. Without recursion: any depth is valid JSON. */
function isSame(first: unknown, second: unknown): boolean {
  const pairs: [unknown, unknown][] = [[first, second]];
  for (let pair = pairs.pop(); pair !== undefined; pair = pairs.pop()) {
    const [a, b] = pair;
    if (a === b) continue;
    if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false;
    const keys = Object.keys(a);
    if (Array.isArray(a) !== Array.isArray(b) || keys.length !== Object.keys(b).length) {
      return false;
    }
    for (const key of keys) {
      if (!Object.hasOwn(b, key)) return false;
      pairs.push([(a as Fields)[key], (b as Fields)[key]]);
    }
  }
  return true;
}

/** A key of both configurations with its values; undefined where one lacks it. */
interface Leaf {
  readonly path: readonly string[];
  readonly before: unknown;
  readonly after: unknown;
}

/** The keys of two configurations, those in objects one by one. */
function* leavesOf(first: Fields, second: Fields, outer: readonly string[] = []): Generator<Leaf> {
  const isOpened = (value: unknown): value is Fields =>
    isFields(value) && outer.length + 1 < MAX_DEPTH && Object.keys(value).length > 0;
  for (const key of new Set([...Object.keys(first), ...Object.keys(second)])) {
    const path = [...outer, key];
    const before = Object.hasOwn(first, key) ? first[key] : undefined;
    const after = Object.hasOwn(second, key) ? second[key] : undefined;
    if (!isOpened(before) && !isOpened(after)) {
      yield { path, before, after };
      continue;
    }
    if (!isOpened(before) && before !== undefined) yield { path, before, after: undefined };
    if (!isOpened(after) && after !== undefined) yield { path, before: undefined, after };
    yield* leavesOf(isOpened(before) ? before : {}, isOpened(after) ? after : {}, path);
  }
}

/** `rope_scaling.factor`; keys with dots or brackets are quoted, as in `a["b.c"]`. */
function formatPath(path: readonly string[]): string {
  const parts = path.map((whole, at) => {
    const key = whole.slice(0, MAX_EXCERPT + 1);
    return /^[^.[\]"]+$/.test(key) ? `${at === 0 ? '' : '.'}${key}` : `[${JSON.stringify(key)}]`;
  });
  return excerptOf(parts.join(''), 0, MAX_EXCERPT);
}

/** Part of a text that contains the position where it differs from another. */
function excerptOf(text: string, difference: number, length: number): string {
  const begin = difference + CONTEXT < length ? 0 : difference - CONTEXT;
  const end = begin + length;
  return `${begin > 0 ? '…' : ''}${text.slice(begin, end)}${end < text.length ? '…' : ''}`;
}

function rowOf({ path, before, after }: Leaf): ConfigRow {
  const texts = [before, after].map((value) => (value === undefined ? null : jsonOf(value)));
  const [first, second] = texts as [string | null, string | null];
  let difference = 0;
  if (first !== null && second !== null) {
    const length = Math.min(first.length, second.length);
    while (difference < length && first[difference] === second[difference]) difference++;
  }
  const cut = (text: string | null): ConfigValue | null =>
    text === null
      ? null
      : {
          json: excerptOf(text, difference, MAX_JSON),
          excerpt: excerptOf(text, difference, MAX_EXCERPT),
        };
  return { key: formatPath(path), before: cut(first), after: cut(second) };
}

/** Compares two parsed configurations; null if one is missing or no object. */
export function configDifference(first: unknown, second: unknown): ConfigDifference | null {
  if (!isFields(first) || !isFields(second)) return null;
  const rows: ConfigRow[] = [];
  let [differing, same] = [0, 0];
  for (const leaf of leavesOf(first, second)) {
    if (isSame(leaf.before, leaf.after)) same++;
    else if (++differing <= MAX_ROWS) rows.push(rowOf(leaf));
  }
  return { rows, differing, same };
}
