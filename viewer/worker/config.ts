/** How the configurations of two models differ, key by key. */

/** A key with two values, as JSON; null where one configuration lacks the key. */
export interface ConfigRow {
  readonly key: string;
  readonly before: string | null;
  readonly after: string | null;
}

/** Two configurations side by side. */
export interface ConfigDifference {
  /** The first of the keys that differ, in the order of the files. */
  readonly rows: readonly ConfigRow[];
  /** The number of keys that differ, and of those that don't. */
  readonly differing: number;
  readonly same: number;
}

/** Rows that are shown, and characters of a value or a key: files of strangers can have any. */
const MAX_ROWS = 200;
const MAX_LENGTH = 200;

/** Objects in objects, such as `rope_scaling`, have a row for every key down to here. */
const MAX_DEPTH = 4;

type Fields = Readonly<Record<string, unknown>>;

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** JSON in one line, with spaces to wrap at. The order of keys makes no difference. */
function jsonOf(value: unknown): string {
  const sorted = (_: string, one: unknown) =>
    isFields(one)
      ? Object.fromEntries(Object.entries(one).sort(([a], [b]) => (a < b ? -1 : 1)))
      : one;
  const lines = JSON.stringify(value, sorted, 1);
  // Line breaks are between tokens only: those in strings are escaped.
  return lines.replaceAll(/(?<=[[{])\n\s*|\n\s*(?=[\]}])/g, '').replaceAll(/\n\s*/g, ' ');
}

/** The values of a configuration by path: `rope_scaling.factor`. */
function* flattened(
  fields: Fields,
  prefix = '',
  depth = 1,
): Generator<readonly [key: string, json: string]> {
  for (const [key, value] of Object.entries(fields)) {
    const isOpened = isFields(value) && depth < MAX_DEPTH && Object.keys(value).length > 0;
    if (isOpened) yield* flattened(value, `${prefix}${key}.`, depth + 1);
    else yield [prefix + key, jsonOf(value)];
  }
}

function shortened(text: string): string {
  return text.length <= MAX_LENGTH ? text : `${text.slice(0, MAX_LENGTH)}…`;
}

/** Compares two parsed configurations; null if one is missing or no object. */
export function configDifference(first: unknown, second: unknown): ConfigDifference | null {
  if (!isFields(first) || !isFields(second)) return null;
  const [before, after] = [new Map(flattened(first)), new Map(flattened(second))];
  const keys = new Set([...before.keys(), ...after.keys()]);
  const differing = [...keys].filter((key) => before.get(key) !== after.get(key));
  const shown = (text: string | undefined) => (text === undefined ? null : shortened(text));
  return {
    rows: differing.slice(0, MAX_ROWS).map((key) => ({
      ...{ key: shortened(key), before: shown(before.get(key)), after: shown(after.get(key)) },
    })),
    differing: differing.length,
    same: keys.size - differing.length,
  };
}
