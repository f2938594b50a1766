/**
 * The header of a safetensors file: length, UTF-8, JSON and the tensors' places, checked in the
 * reference's order and with its verdicts. Pure: the same code reads local files, ranges of remote
 * ones and memory.
 */

import { requireInteger } from '../errors/arguments.js';
import {
  type ErrorContext,
  FileChangedError,
  FormatError,
  type FormatErrorCode,
  quoteName,
} from '../errors/errors.js';
import { runSync, type Work } from '../work/work.js';
import { ITEMS_PER_YIELD } from '../work/yielding.js';
import {
  type CanonicalColumns,
  type CanonicalHeader,
  readCanonicalHeader,
} from './canonical-header.js';
import { DTYPE_NAMES, type Dtype } from './dtype.js';
import { HEAD_BYTE_LENGTH, likeness } from './foreign-formats.js';
import { checkTensors } from './header-checks.js';
import { HeaderParser } from './header-parser.js';
import type { DecodedNames } from './json/decoded-names.js';
import { NameTable } from './json/name-table.js';
import { CLOSE_BRACE, CLOSE_BRACKET, JsonReader, OPEN_BRACE } from './json/reader.js';
import { compareJsonStrings, decodeString, decodeUnescaped, type Text } from './json/strings.js';
import { checkUtf8, describeByte, utf8Text } from './json/utf8.js';
import { CANONICAL, DTYPE_MASK, SUPERSEDED, type TensorColumns } from './tensor-columns.js';

/** Bytes before the header: its length N as an unsigned little-endian integer. */
export const PREFIX_BYTE_LENGTH = 8;

/** The reference's limit: a damaged length must not take all memory. */
export const DEFAULT_MAX_HEADER_BYTE_LENGTH = 100_000_000;

/** Positions inside a header are kept in 32 bits. */
const LARGEST_HEADER_BYTE_LENGTH = 2 ** 32 - 1;

/** How to read a header. */
export interface ParseHeaderOptions {
  /** Longest header to accept, in bytes, up to 2^32 - 1; 100 000 000 unless given. */
  maxHeaderByteLength?: number | undefined;
  /** The file, for messages. */
  path?: string | undefined;
}

/**
 * Length N of the header in bytes, from the first bytes of a file (steps 1 to 3 of the pipeline).
 * `head` holds at least 8 bytes when the file has them; with 512, messages name foreign formats.
 *
 * @throws FormatError `SAFETENSORS_HEADER_TOO_SMALL` below 8 bytes, `SAFETENSORS_HEADER_TOO_LARGE`
 * above the limit, `SAFETENSORS_INVALID_HEADER_LENGTH` when the file ends before the header does.
 */
export function readHeaderLength(
  head: Uint8Array,
  fileByteLength: number,
  options: ParseHeaderOptions = {},
): number {
  const limit = headerLimit(options);
  if (fileByteLength < PREFIX_BYTE_LENGTH || head.length < PREFIX_BYTE_LENGTH) {
    const { looks, context } = likeness(head, contextOf(options));
    const found = fileByteLength === 0 ? 'an empty file' : `${fileByteLength}`;
    const message = `${looks}expected at least ${PREFIX_BYTE_LENGTH} bytes, found ${found}`;
    throw new FormatError('SAFETENSORS_HEADER_TOO_SMALL', message, context);
  }
  const view = new DataView(head.buffer, head.byteOffset, PREFIX_BYTE_LENGTH);
  const length = view.getUint32(4, true) * 2 ** 32 + view.getUint32(0, true);
  if (length > limit) {
    const found = `found a length of ${view.getBigUint64(0, true)}`;
    const expected = `expected a header of at most ${limit} bytes, ${found}`;
    failLength('SAFETENSORS_HEADER_TOO_LARGE', expected, head, options);
  }
  if (PREFIX_BYTE_LENGTH + length > fileByteLength) {
    const found = `found ${fileByteLength - PREFIX_BYTE_LENGTH} before the end of the file: it is incomplete`;
    const expected = `expected a header of ${length} bytes, ${found}`;
    failLength('SAFETENSORS_INVALID_HEADER_LENGTH', expected, head, options);
  }
  return length;
}

/** Names the foreign format, if known: a length read from that format's first bytes would be meaningless. */
function failLength(
  code: FormatErrorCode,
  expected: string,
  head: Uint8Array,
  options: ParseHeaderOptions,
): never {
  const { looks, context } = likeness(head, contextOf(options));
  const message = looks === '' ? expected : `${looks}expected a safetensors file`;
  throw new FormatError(code, message, context);
}

function headerLimit({ maxHeaderByteLength }: ParseHeaderOptions): number {
  if (maxHeaderByteLength === undefined) return DEFAULT_MAX_HEADER_BYTE_LENGTH;
  requireInteger('maxHeaderByteLength', maxHeaderByteLength, 0, LARGEST_HEADER_BYTE_LENGTH);
  return maxHeaderByteLength;
}

function contextOf({ path }: ParseHeaderOptions): ErrorContext {
  return { path };
}

/**
 * Parses and checks a header (steps 4 to 8 of the pipeline). Takes ownership of `json`,
 * exactly its N bytes; don't modify it afterwards.
 *
 * @throws FormatError with the code of the first step that fails. Two refusals are this project's
 * own and come last, after everything that the reference refuses: `SAFETENSORS_DUPLICATE_KEY` for a
 * repeated tensor name, metadata key, or unknown key of one description, and
 * `SAFETENSORS_VALIDATION_OVERFLOW` for a dimension above 2^53 - 1.
 */
export function parseHeader(
  json: Uint8Array,
  fileByteLength: number,
  options: ParseHeaderOptions = {},
): Header {
  return runSync(readHeader(json, fileByteLength, options));
}

/**
 * Once a process has read this many bytes of headers, the scanner reads the rest: it reads most of many shards, so it
 * had better get warm. With 163 shards it takes 60 ms of processor time, `readCanonicalHeader` 95.
 */
const EARLY_BYTE_LENGTH = 256 * 1024;

/**
 * All headers but the first of a process go to the scanner from this length on, of some 250 tensors: it will read
 * most shards of such a checkpoint anyway, and the sooner it begins, the sooner it is warm.
 */
const FEW_TENSORS_BYTE_LENGTH = 32 * 1024;

/** Bytes of headers that this process has read or tried to read. */
let triedByteLength = 0;

function* readHeader(
  json: Uint8Array,
  fileByteLength: number,
  options: ParseHeaderOptions,
): Work<Header> {
  const dataByteLength = fileByteLength - PREFIX_BYTE_LENGTH - json.length;
  const isFirst = triedByteLength === 0;
  const hasFew = json.length < FEW_TENSORS_BYTE_LENGTH && triedByteLength < EARLY_BYTE_LENGTH;
  triedByteLength += json.length;
  const usual = isFirst || hasFew ? yield* readCanonicalHeader(json, dataByteLength) : null;
  if (usual === null) return yield* scanHeader(json, dataByteLength, contextOf(options));
  return new Header(new JsonReader(json), usual, usual.names, dataByteLength);
}

/** Reads a header of any spelling. */
export function* scanHeader(
  json: Uint8Array,
  dataByteLength: number,
  context: ErrorContext,
): Work<Header> {
  // Steps 4 and 5: UTF-8 and JSON in one pass, which notes where everything stands.
  if (json[0] !== OPEN_BRACE) failStart(json, context);
  const reader = new JsonReader(json, context);
  const parser = new HeaderParser(reader);
  yield* parser.parse();
  // Step 6: sort the tensors into file order, and fill the table of names.
  yield* parser.columns.sortByOffsets();
  parser.columns = parser.columns.keep();
  const { columns } = parser;
  const names = new NameTable(json, columns.nameAt, columns.nameHash, columns.size);
  const repeatedNameAt = yield* addNames(names, columns);
  // Steps 7 and 8: places and sizes of the tensors, and the end of the file.
  const oversized = yield* checkTensors(reader, columns, dataByteLength, context);
  // Step 9: refuse headers that the reference accepts but this project doesn't.
  const duplicateAt = parser.duplicateAt === -1 ? repeatedNameAt : parser.duplicateAt;
  if (duplicateAt !== -1) {
    throw new FormatError(
      'SAFETENSORS_DUPLICATE_KEY',
      `duplicate key ${quoteName(decodeString(json, duplicateAt))} (header byte ${duplicateAt})`,
      context,
    );
  }
  if (oversized !== -1) {
    throw new FormatError(
      'SAFETENSORS_VALIDATION_OVERFLOW',
      `expected dimensions up to ${Number.MAX_SAFE_INTEGER}, found a larger one`,
      { ...context, tensor: decodeString(json, columns.nameAt[oversized] as number) },
    );
  }
  return new Header(reader, parser, names, dataByteLength);
}

/**
 * Parses and checks the header at the start of a file. Takes ownership of `start`, all
 * bytes before the tensor data; don't modify it afterwards.
 *
 * @throws FormatError; FileChangedError when `start` announces a header of another length
 */
export function* parseStart(
  start: Uint8Array,
  fileByteLength: number,
  options: ParseHeaderOptions,
): Work<Header> {
  const length = readHeaderLength(start, fileByteLength, options);
  if (PREFIX_BYTE_LENGTH + length !== start.byteLength) {
    const { path } = options;
    throw new FileChangedError('the file was rewritten while its header was read', { path });
  }
  return yield* readHeader(start.subarray(PREFIX_BYTE_LENGTH), fileByteLength, options);
}

function failStart(json: Uint8Array, given: ErrorContext): never {
  const head = new Uint8Array(HEAD_BYTE_LENGTH);
  new DataView(head.buffer).setUint32(0, json.length, true);
  head.set(json.subarray(0, head.length - PREFIX_BYTE_LENGTH), PREFIX_BYTE_LENGTH);
  const { looks, context } = likeness(head.subarray(0, PREFIX_BYTE_LENGTH + json.length), given);
  checkUtf8(json, context, looks);
  throw new FormatError(
    'SAFETENSORS_INVALID_HEADER_START',
    `${looks}expected the header to begin with "{", found ${describeByte(json, 0)}`,
    context,
  );
}

/**
 * Fills the table; of tensors with the same name the last in the header stays. Returns the position of a repeated
 * name, or -1.
 */
function* addNames(names: NameTable, columns: TensorColumns): Work<number> {
  let repeatedAt = -1;
  for (let begin = 0; begin < columns.size; begin += ITEMS_PER_YIELD) {
    const end = Math.min(begin + ITEMS_PER_YIELD, columns.size);
    const found = addSomeNames(names, columns, begin, end);
    if (found !== -1) repeatedAt = found;
    yield;
  }
  return repeatedAt;
}

/** The same for the entries [begin, end). */
function addSomeNames(
  names: NameTable,
  { kind, nameAt }: TensorColumns,
  begin: number,
  end: number,
): number {
  let repeatedAt = -1;
  for (let entry = begin; entry < end; entry++) {
    const superseded = names.add(entry);
    if (superseded === -1) continue;
    kind[superseded] = (kind[superseded] as number) | SUPERSEDED;
    repeatedAt = nameAt[entry] as number;
  }
  return repeatedAt;
}

/** Longest shape for which the memory that reads it is retained. */
const MAX_SHORT_RANK = 16;

/**
 * A valid header. Tensors are entries, numbered 0 to `size` - 1 in the order of their bytes in the
 * file; empty tensors at one offset keep the header's order.
 */
export class Header {
  /** The header's N bytes, owned by this object; don't modify them. */
  readonly json: Uint8Array;
  /** Number of tensors. */
  readonly size: number;
  /** Position of the tensor data in the file, in bytes. */
  readonly dataStart: number;
  /** Bytes of tensor data. */
  readonly dataByteLength: number;
  /** Position of the value of `__metadata__` in `json`, an object or `null`; -1 without that key. */
  readonly metadataAt: number;
  /** Position after the metadata's value. */
  readonly metadataEnd: number;
  readonly #reader: JsonReader;
  readonly #columns: TensorColumns | CanonicalColumns;
  /** A column of `#columns`: comparing names must not slow down where those are now of one class, now of the other. */
  readonly #nameAt: Uint32Array;
  readonly #names: NameTable | DecodedNames;
  #metadata: ReadonlyMap<string, string> | null = null;
  /** Memory for the dimensions that are being read. */
  #dimensions: number[] = [];

  /** Only `parseHeader` makes headers. */
  constructor(
    reader: JsonReader,
    { columns, metadataAt, metadataEnd }: HeaderParser | CanonicalHeader,
    names: NameTable | DecodedNames,
    dataByteLength: number,
  ) {
    this.json = reader.bytes;
    this.#reader = reader;
    this.size = columns.size;
    this.dataStart = PREFIX_BYTE_LENGTH + reader.bytes.length;
    this.dataByteLength = dataByteLength;
    this.#columns = columns;
    this.#nameAt = columns.nameAt;
    this.#names = names;
    this.metadataAt = metadataAt;
    this.metadataEnd = metadataEnd;
  }

  /** The same as `json`, to be compared and copied in words. */
  get source(): Text {
    return this.#reader;
  }

  /** The JSON as text, with the spaces at its end. */
  get text(): string {
    return runSync(utf8Text(this.json));
  }

  /** The metadata in the header's order; null if absent. Decoded on first use. */
  get metadata(): ReadonlyMap<string, string> | null {
    if (this.json[this.metadataAt] !== OPEN_BRACE) return null;
    this.#metadata ??= this.#decodeMetadata();
    return this.#metadata;
  }

  #decodeMetadata(): Map<string, string> {
    const metadata = new Map<string, string>();
    const reader = this.#reader;
    reader.at = this.metadataAt;
    if (!reader.enter(CLOSE_BRACE)) return metadata;
    do {
      const key = decodeString(this.json, reader.readKey());
      reader.peek();
      metadata.set(key, this.#decodeValue(reader));
    } while (reader.hasNext(CLOSE_BRACE));
    return metadata;
  }

  /** Reads a value of the metadata, which may be the digests of a hundred thousand tensors. */
  #decodeValue(reader: JsonReader): string {
    const found = decodeUnescaped(this.json, reader.at + 1);
    if (found === undefined) return decodeString(this.json, reader.readString());
    reader.at = found.end + 1;
    return found.text;
  }

  /** Entry of a tensor's name; -1 if absent. */
  find(name: string): number {
    return this.#names.find(name);
  }

  /** Entry of the name that `reader` read last, which began at `start`; -1 if absent. */
  findString(reader: JsonReader, start: number): number {
    return this.#names.findString(reader, start);
  }

  /** Whether the entry exists and its name equals the string of `reader` that begins at `start`. */
  isNamed(entry: number, reader: JsonReader, start: number): boolean {
    if (entry >= this.size) return false;
    return compareJsonStrings(this.#reader, this.#nameAt[entry] as number, reader, start) === 0;
  }

  /** Name of an entry. */
  name(entry: number): string {
    return this.#names.name(entry);
  }

  /** All names in the order of the file; a new array. */
  names(): string[] {
    return this.#names.names();
  }

  /** All names sorted by their UTF-8 bytes, as in the reference; a new array. */
  sortedNames(): string[] {
    return this.#names.sortedNames();
  }

  /** Position of an entry's name in `json`, after the opening quote. */
  nameAt(entry: number): number {
    return this.#nameAt[entry] as number;
  }

  /** Dtype of an entry. */
  dtype(entry: number): Dtype {
    return DTYPE_NAMES[this.dtypeRank(entry)] as Dtype;
  }

  /** The rank of an entry's dtype: its position in `DTYPE_NAMES`. */
  dtypeRank(entry: number): number {
    return (this.#columns.kind[entry] as number) & DTYPE_MASK;
  }

  /** Position of an entry's shape in `json`: its opening bracket. */
  shapeAt(entry: number): number {
    return this.#columns.shapeAt[entry] as number;
  }

  /** Whether this package would spell the entry's JSON, from name to shape, the same way. */
  isCanonical(entry: number): boolean {
    return ((this.#columns.kind[entry] as number) & CANONICAL) !== 0;
  }

  /** Dimensions of an entry, outermost first: a new, frozen array. */
  shape(entry: number): readonly number[] {
    const reader = this.#reader;
    const dimensions = this.#dimensions;
    let rank = 0;
    reader.at = this.#columns.shapeAt[entry] as number;
    if (reader.enter(CLOSE_BRACKET)) {
      do {
        dimensions[rank++] = reader.readUnsigned();
      } while (reader.hasNext(CLOSE_BRACKET));
    }
    if (rank > MAX_SHORT_RANK) this.#dimensions = [];
    // The array that is read into has room for at least 17 dimensions, its copy for these.
    return Object.freeze(dimensions.slice(0, rank));
  }

  /** Offset of an entry's first byte, in bytes from `dataStart`. */
  begin(entry: number): number {
    return this.#columns.begin(entry);
  }

  /** Offset after an entry's last byte, in bytes from `dataStart`. */
  end(entry: number): number {
    return this.#columns.end(entry);
  }
}
