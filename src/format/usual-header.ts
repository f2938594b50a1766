/**
 * Headers of the usual spelling, fast from the first call: by regular expressions, which the engine
 * compiles at their second use. The scanner of `header-parser.ts` is interpreted until it has read
 * thousands of tensors, and then takes less time than this. What is taken here is valid; everything
 * else is left to the scanner, which alone refuses headers.
 */

import { DecodedNames } from '../json/decoded-names.js';
import { JsonReader } from '../json/reader.js';
import { SLICE_SIZE, type Slices } from '../json/slices.js';
import { DTYPE_NAMES, DTYPES } from './dtype.js';
import { METADATA_NAME } from './header-parser.js';
import { TensorColumns } from './tensor-columns.js';

/**
 * Longer headers, of some 20 000 tensors, are the scanner's: there both take the same time in a fresh
 * process, and once the scanner is compiled it takes half or a quarter of this.
 */
export const MAX_USUAL_BYTE_LENGTH: number = 2 * 2 ** 20;

/** What stands in a header of the usual spelling. */
export interface UsualHeader {
  /** The tensors, in the order of their offsets; the hashes of the names are not filled in. */
  readonly columns: TensorColumns;
  readonly names: DecodedNames;
  /** Position of the metadata's value; -1 when there is none. */
  readonly metadataAt: number;
  /** Position behind that value. */
  readonly metadataEnd: number;
}

/** ASCII in a string that stands for itself: no quotes, backslashes or control characters. */
const PLAIN = '[ !#-[\\]-\\x7f]*';
const INTEGER = '(0|[1-9]\\d*)';
/** Up to five dimensions. */
const SHAPE = [1, 2, 3, 4, 5].reduceRight(
  (rest, n) => `(?:${n > 1 ? ',' : ''}${INTEGER}${rest})?`,
  '',
);

/** Name, dtype, dimensions and offsets of a tensor, and the comma or brace behind it. */
const TENSOR = new RegExp(
  `"(${PLAIN})":\\{"dtype":"(\\w+)","shape":\\[${SHAPE}\\],"data_offsets":\\[${INTEGER},${INTEGER}\\]\\}([,}])`,
  'y',
);
const FIRST_DIMENSION = 3;
const BEGIN = 8;
const END = 9;
const NEXT = 10;
/** Where a shape begins, less the lengths of name and dtype: `":{"dtype":"","shape":`. */
const SHAPE_DISTANCE = '":{"dtype":"","shape":'.length;

const METADATA_START = `{"${METADATA_NAME}":`;
/** Key of a pair, and the comma or brace behind it. Values may have escapes of one character. */
const METADATA_PAIR = new RegExp(
  `"(${PLAIN})":"${PLAIN}(?:\\\\["\\\\/bfnrt]${PLAIN})*"([,}])`,
  'y',
);

const DTYPE_CODES: ReadonlyMap<string, number> = new Map(
  DTYPE_NAMES.map((name, code) => [name, code]),
);
const DTYPE_BITS = DTYPE_NAMES.map((name) => DTYPES[name].bits);

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * Reads a header of at most `MAX_USUAL_BYTE_LENGTH` bytes if all of this holds: nothing but ASCII, no
 * whitespace except at the end; the metadata, if any, comes first; the fields of a description in the
 * usual order; the tensors in the order of their bytes, end to end, every key once. Else returns null.
 */
export function* readUsualHeader(
  bytes: Uint8Array,
  dataByteLength: number,
): Slices<UsualHeader | null> {
  if (bytes.length > MAX_USUAL_BYTE_LENGTH) return null;
  const text = decoder.decode(bytes);
  // A position in the text is one in the bytes. Bytes that are not UTF-8 match nothing.
  if (text.length !== bytes.length || text[0] !== '{') return null;
  const metadataAt = text.startsWith(METADATA_START) ? METADATA_START.length : -1;
  const metadataEnd = metadataAt === -1 ? -1 : endOfMetadata(text, metadataAt);
  if (metadataAt !== -1 && text[metadataEnd] !== ',') return null;
  let at = metadataAt === -1 ? 1 : metadataEnd + 1;

  const columns = new TensorColumns(bytes.length);
  const entries = new Map<string, number>();
  let end = 0;
  let next: string | undefined = ',';
  while (next === ',') {
    if (columns.size % SLICE_SIZE === 0) yield;
    TENSOR.lastIndex = at;
    const match = TENSOR.exec(text);
    if (match === null) return null;
    const name = match[1] as string;
    const dtype = match[2] as string;
    const code = DTYPE_CODES.get(dtype);
    const begin = Number(match[BEGIN]);
    if (code === undefined || begin !== end) return null;
    end = Number(match[END]);
    const bits = elementCountIn(match) * (DTYPE_BITS[code] as number);
    const isSafe = bits <= Number.MAX_SAFE_INTEGER && end <= Number.MAX_SAFE_INTEGER;
    if (!isSafe || bits !== (end - begin) * 8) return null;
    entries.set(name, columns.size);
    const nameAt = at + 1;
    columns.add(nameAt, nameAt + name.length + dtype.length + SHAPE_DISTANCE, code, begin, end);
    at += match[0].length;
    next = match[NEXT];
  }
  const rest = new JsonReader(bytes.subarray(at));
  if (rest.peek() !== -1 || end !== dataByteLength) return null;
  if (entries.size !== columns.size || entries.has(METADATA_NAME)) return null;
  columns.trim();
  return { columns, names: new DecodedNames(entries), metadataAt, metadataEnd };
}

/** Product of the dimensions; NaN when it, or one of them, is above 2^53 - 1. */
function elementCountIn(match: RegExpExecArray): number {
  let count = 1;
  for (let i = FIRST_DIMENSION; i < BEGIN && match[i] !== undefined; i++) {
    const dimension = Number(match[i]);
    count *= dimension;
    if (dimension > Number.MAX_SAFE_INTEGER || count > Number.MAX_SAFE_INTEGER) return NaN;
  }
  return count;
}

/** Position behind the metadata's object, whose keys all differ; -1 when it has another form. */
function endOfMetadata(text: string, start: number): number {
  if (text.startsWith('{}', start)) return start + 2;
  if (text[start] !== '{') return -1;
  const keys = new Set<string>();
  let at = start + 1;
  for (let count = 1; ; count++) {
    METADATA_PAIR.lastIndex = at;
    const match = METADATA_PAIR.exec(text);
    if (match === null || keys.add(match[1] as string).size !== count) return -1;
    at += match[0].length;
    if (match[2] === '}') return at;
  }
}
