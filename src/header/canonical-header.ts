/**
 * Headers of the usual spelling, fast from the first call: by regular expressions, which the engine compiles at their
 * second use. The scanner of `header-parser.ts` is interpreted until it has read thousands of tensors, and then takes
 * less time than this. The headers accepted here are valid; all others go to the scanner, and only that
 * rejects headers. Without this a process opens its first file, of 147 tensors, in 8.2 instead of 2.5 ms.
 */

import type { Work } from '../work/work.js';
import { ITEMS_PER_YIELD } from '../work/yielding.js';
import { DTYPE_BITS, DTYPE_NAMES } from './dtype.js';
import { METADATA_NAME } from './header-parser.js';
import { DecodedNames } from './json/decoded-names.js';
import { JsonReader } from './json/reader.js';
import { CANONICAL, mostTensors } from './tensor-columns.js';

/**
 * The scanner reads longer headers, of some 20 000 tensors: there both take the same time in a fresh process, and
 * once the scanner is compiled it takes half or a quarter of this.
 */
export const MAX_CANONICAL_BYTE_LENGTH: number = 2 * 2 ** 20;

/**
 * The facts of `TensorColumns` for tensors in the order of their bytes: one offset for each. Most of the memory is
 * never touched.
 */
export class CanonicalColumns {
  /** Position in the header after the opening quote of the name. */
  readonly nameAt: Uint32Array;
  /** Position in the header of the opening bracket of the shape. */
  readonly shapeAt: Uint32Array;
  /** Code of the dtype and the bit above. */
  readonly kind: Uint8Array;
  /** Offset after the last byte. */
  readonly ends: Float64Array;
  /** Entries in use. */
  size = 0;

  /** Room for all tensors of a header of that many bytes. */
  constructor(headerByteLength: number) {
    const capacity = mostTensors(headerByteLength);
    this.nameAt = new Uint32Array(capacity);
    this.shapeAt = new Uint32Array(capacity);
    this.kind = new Uint8Array(capacity);
    this.ends = new Float64Array(capacity);
  }

  /** Offset of the first byte. */
  begin(entry: number): number {
    return entry === 0 ? 0 : this.end(entry - 1);
  }

  /** Offset after the last byte. */
  end(entry: number): number {
    return this.ends[entry] as number;
  }
}

/** Contents of a header of the usual spelling. */
export interface CanonicalHeader {
  /** The tensors, in the order of their offsets. */
  readonly columns: CanonicalColumns;
  readonly names: DecodedNames;
  /** Position of the metadata's value; -1 if absent. */
  readonly metadataAt: number;
  /** Position after that value. */
  readonly metadataEnd: number;
}

/** ASCII that a JSON string contains literally: no quotes, backslashes or control characters. */
const PLAIN_TEXT = '[ !#-[\\]-\\x7f]*';

/** Name, layout and offsets of a tensor, and the comma or brace after it. */
const TENSOR = new RegExp(
  `"(${PLAIN_TEXT})":\\{"dtype":"(\\w+","shape":\\[[\\d,]*)\\],"data_offsets":\\[(\\d+),(\\d+)\\]\\}([,}])`,
  'y',
);
const LAYOUT = 2;
const BEGIN = 3;
const END_GROUP = 4;
const NEXT = 5;
/** The text between dtype and dimensions. */
const LAYOUT_MIDDLE = '","shape":[';
/** Where a shape begins, less the lengths of name and dtype: `":{"dtype":"","shape":`. */
const SHAPE_DISTANCE = '":{"dtype":"","shape":'.length;

const METADATA_START = `{"${METADATA_NAME}":`;
/** Key of a pair, and the comma or brace after it. Values may have escapes of one character. */
const METADATA_PAIR = new RegExp(
  `"(${PLAIN_TEXT})":"${PLAIN_TEXT}(?:\\\\["\\\\/bfnrt]${PLAIN_TEXT})*"([,}])`,
  'y',
);

const DTYPE_CODES: ReadonlyMap<string, number> = new Map(
  DTYPE_NAMES.map((name, code) => [name, code]),
);

/** Facts that follow from dtype and shape. Many tensors share a layout. */
interface SpelledLayout {
  /** Code of the dtype. */
  readonly code: number;
  /** Bytes that the tensor takes. */
  readonly byteLength: number;
  /** Where the shape begins, after the opening quote of the name and less its length. */
  readonly shapeAt: number;
}

const decoder = new TextDecoder('utf-8', { ignoreBOM: true });

/**
 * Reads a header of at most `MAX_CANONICAL_BYTE_LENGTH` bytes if all of this holds: nothing but ASCII, no
 * whitespace except at the end; the metadata, if any, comes first; the fields of a description in the
 * usual order; the tensors in the order of their bytes, end to end, every key once. Else returns null.
 */
export function* readCanonicalHeader(
  bytes: Uint8Array,
  dataByteLength: number,
): Work<CanonicalHeader | null> {
  if (bytes.length > MAX_CANONICAL_BYTE_LENGTH) return null;
  const text = decoder.decode(bytes);
  // A position in the text is one in the bytes. Bytes that are not UTF-8 match nothing.
  if (text.length !== bytes.length || text[0] !== '{') return null;
  const metadataAt = text.startsWith(METADATA_START) ? METADATA_START.length : -1;
  let metadataEnd = -1;
  let at = 1;
  if (metadataAt !== -1) {
    metadataEnd = endOfMetadata(text, metadataAt);
    if (text[metadataEnd] !== ',') return null;
    at = metadataEnd + 1;
  }

  const columns = new CanonicalColumns(bytes.length);
  const { nameAt, shapeAt, kind, ends } = columns;
  const entries = new Map<string, number>();
  const layouts = new Map<string, SpelledLayout | null>();
  let end = 0;
  let endText = '0';
  let next: string | undefined = ',';
  while (next === ',') {
    const entry = columns.size;
    if (entry % ITEMS_PER_YIELD === 0) yield;
    TENSOR.lastIndex = at;
    const match = TENSOR.exec(text);
    if (match === null) return null;
    const name = match[1] as string;
    const spelling = match[LAYOUT] as string;
    let layout = layouts.get(spelling);
    if (layout === undefined) {
      layout = spelledLayout(spelling);
      layouts.set(spelling, layout);
    }
    if (layout === null || match[BEGIN] !== endText) return null;
    end += layout.byteLength;
    endText = match[END_GROUP] as string;
    if (String(end) !== endText || end > Number.MAX_SAFE_INTEGER) return null;
    entries.set(name, entry);
    nameAt[entry] = at + 1;
    shapeAt[entry] = at + 1 + name.length + layout.shapeAt;
    kind[entry] = layout.code | CANONICAL;
    ends[entry] = end;
    columns.size = entry + 1;
    at = TENSOR.lastIndex;
    next = match[NEXT];
  }
  const rest = new JsonReader(bytes.subarray(at));
  if (rest.peek() !== -1 || end !== dataByteLength) return null;
  if (entries.size !== columns.size || entries.has(METADATA_NAME)) return null;
  return { columns, names: new DecodedNames(entries), metadataAt, metadataEnd };
}

/**
 * Reads dtype and dimensions, such as `F32","shape":[2,3`. Null unless the dtype is known, the numbers are
 * spelt as JavaScript spells them, and they and their products are at most 2^53 - 1.
 */
function spelledLayout(spelling: string): SpelledLayout | null {
  const [dtype = '', dimensions = ''] = spelling.split(LAYOUT_MIDDLE);
  const code = DTYPE_CODES.get(dtype);
  if (code === undefined) return null;
  let bits = DTYPE_BITS[code] as number;
  for (const text of dimensions === '' ? [] : dimensions.split(',')) {
    const dimension = Number(text);
    bits *= dimension;
    const isSafe = Number.isSafeInteger(dimension) && Number.isSafeInteger(bits);
    if (!isSafe || String(dimension) !== text) return null;
  }
  if (bits % 8 !== 0) return null;
  return { code, byteLength: bits / 8, shapeAt: SHAPE_DISTANCE + dtype.length };
}

/** Position after the metadata's object, whose keys all differ; -1 when it has another form. */
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
