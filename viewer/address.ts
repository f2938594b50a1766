/**
 * The address of a view: what follows the `#`, as `name=value` pairs. Everything that decides what is shown is
 * in it, so that it can be sent.
 */

/** What an address may name. All are texts of people, or of files: none is trusted. */
export interface Address {
  /** The source: a URL, `hf://org/name`, or the name that a server gave it. Absent for dropped files. */
  readonly open?: string;
  /** The second source. */
  readonly with?: string;
  /** The source that the two were made from. */
  readonly base?: string;
  readonly view?: string;
  readonly tensor?: string;
  /** In numpy's notation. */
  readonly slice?: string;
  /** What a view shows: the colours of the map, the statistic of a plot. */
  readonly by?: string;
  /** Words to search for. */
  readonly find?: string;
  readonly sort?: string;
}

const NAMES = ['open', 'with', 'base', 'view', 'tensor', 'slice', 'by', 'find', 'sort'] as const;

/** Longest value that is taken from an address: names of tensors can be long, more is no name. */
const MAX_LENGTH = 10_000;

/** The address of what people type: `org/name` is on the Hub. */
export function sourceAddress(text: string): string {
  const typed = text.trim();
  return /^[\w.-]+\/[\w.-]+(?:@[\w./-]+)?$/.test(typed) ? `hf://${typed}` : typed;
}

/** Reads the part of a URL from `#` on. Ignores what it doesn't know. */
export function parseAddress(hash: string): Address {
  const given = new URLSearchParams(hash.replace(/^#/, ''));
  return Object.fromEntries(
    NAMES.flatMap((name) => {
      const value = given.get(name);
      return value === null || value === '' || value.length > MAX_LENGTH ? [] : [[name, value]];
    }),
  );
}

/** The part of a URL from `#` on. */
export function formatAddress(address: Address): string {
  const pairs = NAMES.flatMap((name) => {
    const value = address[name];
    // People read these: only what would end a value, or be read as something else, is escaped.
    return value === undefined || value === '' ? [] : [`${name}=${escaped(value)}`];
  });
  return `#${pairs.join('&')}`;
}

function escaped(value: string): string {
  return encodeURIComponent(value.toWellFormed()).replaceAll(
    /%(?:2F|3A|2C|5B|5D|40)/g,
    decodeURIComponent,
  );
}
