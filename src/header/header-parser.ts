/**
 * Step 5 of reading a header: one pass over its JSON, which is checked against the grammar and against
 * the rules for the header object, the metadata and the tensors' descriptions. Positions and values go
 * into `TensorColumns`; nothing is made per tensor.
 */

import { quoteName } from '../errors/errors.js';
import type { Work } from '../work/work.js';
import { ITEMS_PER_YIELD } from '../work/yielding.js';
import { DTYPE_BITS, DTYPE_NAMES } from './dtype.js';
import { ObjectKeys } from './json/duplicate-keys.js';
import { type HashKey, hashString, processHashKey } from './json/key-hash.js';
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  ExpectedText,
  type JsonReader,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
} from './json/reader.js';
import { skipNull, skipValue } from './json/skip.js';
import { compareStrings, decodeString } from './json/strings.js';
import { CANONICAL, TensorColumns, UNPROVEN } from './tensor-columns.js';

const encoder = new TextEncoder();

/** A JSON string without its opening quote, as `compareStrings` takes it. */
function keyBytes(text: string): Uint8Array {
  return encoder.encode(`${text}"`);
}

/** The key of the metadata; no tensor can have this name. */
export const METADATA_NAME = '__metadata__';
const METADATA_KEY = keyBytes(METADATA_NAME);

/** The keys of a tensor's description. */
const FIELDS = ['dtype', 'shape', 'data_offsets'];
const FIELD_KEYS = FIELDS.map(keyBytes);

/** The dtypes by their codes. */
const DTYPE_KEYS = DTYPE_NAMES.map(keyBytes);

/** The usual spelling of a field's key. */
const CANONICAL_FIELDS = FIELDS.map((key) => new ExpectedText(`"${key}":`));
/** The usual start of a description, by the dtype's code. */
const CANONICAL_STARTS = DTYPE_NAMES.map(
  (name) => new ExpectedText(`{"dtype":"${name}","shape":[`),
);
/** The usual text between shape and offsets. */
const CANONICAL_OFFSETS = new ExpectedText('],"data_offsets":[');

/** Descriptions to read the slow way after an unusual one: a writer keeps to one spelling. */
const UNTRIED_DESCRIPTIONS = 15;

/** Name of the offsets in the oldest draft of the format. */
const OLD_DATA_OFFSETS = keyBytes('offsets');
/** The draft's dtypes had the names of numpy and torch. */
const OLD_DTYPE = /^(b?float|u?int)\d+$|^bool$/;
const OLD_DRAFT = 'as in the oldest draft of the format, which no reader accepts any more';

/** A local constant, since interpreted code is slower to ask `Number` for it. */
const MAX_SAFE_INTEGER = Number.MAX_SAFE_INTEGER;
const UNDERSCORE = 0x5f;

/** Reads the header object and notes the position of every part. */
export class HeaderParser {
  /** The tensors, in the header's order. */
  columns: TensorColumns;
  /** Position of the metadata's value, an object or `null`; -1 if absent. */
  metadataAt = -1;
  /** Position after the metadata's value. */
  metadataEnd = -1;
  /** Position of the first repeated key of metadata or descriptions; -1 if absent. */
  duplicateAt = -1;
  readonly #reader: JsonReader;
  readonly #hashKey: HashKey;
  /** Keys of the metadata, or unknown keys of a description. */
  readonly #keys = new ObjectKeys();
  /** Descriptions still to be read the slow way. */
  #untried = 0;
  /** The dtype of the last usual description. */
  #lastDtype = 0;
  // The description that is being read.
  #dtype = -1;
  #shapeAt = -1;
  /** Product of the dimensions; NaN when it, or one of them, is above 2^53 - 1. */
  #elementCount = 0;
  #hasOffsets = false;

  /** The reader stands at the opening brace of the header. */
  constructor(reader: JsonReader) {
    this.#reader = reader;
    this.#hashKey = processHashKey(reader.bytes.length);
    this.columns = TensorColumns.forHeader(reader.bytes.length);
  }

  /** Reads the whole header. */
  *parse(): Work<void> {
    const reader = this.#reader;
    if (reader.enter(CLOSE_BRACE)) while (this.#readSlice()) yield;
    reader.expectEnd();
  }

  /** Reads some members; returns whether there are more. */
  #readSlice(): boolean {
    const reader = this.#reader;
    for (let read = 0; read < ITEMS_PER_YIELD; read++) {
      const nameAt = reader.readKey();
      if (this.#isMetadata(nameAt)) this.#readMetadata(nameAt);
      else this.#readTensor(nameAt);
      if (!reader.hasNext(CLOSE_BRACE)) return false;
    }
    return true;
  }

  #isMetadata(nameAt: number): boolean {
    const { bytes, isEscaped } = this.#reader;
    const mayBe = bytes[nameAt] === UNDERSCORE || isEscaped;
    return mayBe && this.#isKey(nameAt, METADATA_KEY);
  }

  #readMetadata(nameAt: number): void {
    const reader = this.#reader;
    if (this.metadataAt !== -1) reader.failAt(nameAt, 'no second "__metadata__"');
    reader.peek();
    this.metadataAt = reader.at;
    if (!skipNull(reader)) this.#readMetadataObject(reader);
    this.metadataEnd = reader.at;
  }

  #readMetadataObject(reader: JsonReader): void {
    if (reader.peek() !== OPEN_BRACE) reader.fail('an object or null as metadata');
    if (!reader.enter(CLOSE_BRACE)) return;
    this.#keys.clear();
    do {
      const keyAt = reader.readKey();
      this.#keys.add(keyAt);
      reader.metadataKeyAt = keyAt;
      if (reader.peek() !== QUOTE) reader.failAt(reader.at, 'a string', this.#valueKind());
      reader.readString();
      reader.metadataKeyAt = -1;
    } while (reader.hasNext(CLOSE_BRACE));
    this.#noteRepeated(this.metadataAt);
  }

  /** The kind of the JSON value that begins here, for messages; undefined unless it is one. */
  #valueKind(): string | undefined {
    const { bytes, at } = this.#reader;
    const byte = bytes[at] as number;
    if (byte === OPEN_BRACE) return 'an object';
    if (byte === OPEN_BRACKET) return 'an array';
    const start = String.fromCharCode(...bytes.subarray(at, at + 5));
    if (/^-?\d/.test(start)) return 'a number';
    return /^(?:null|true|false)/.exec(start)?.[0];
  }

  #readTensor(nameAt: number): void {
    const reader = this.#reader;
    const { columns } = this;
    reader.tensorAt = nameAt;
    columns.nameHash[columns.size] = hashString(reader, nameAt, this.#hashKey);
    const objectAt = reader.at;
    if (this.#untried > 0) {
      this.#untried--;
      this.#readDescription(nameAt);
    } else if (!this.#readCanonicalDescription(nameAt)) {
      this.#untried = UNTRIED_DESCRIPTIONS;
      reader.at = objectAt;
      this.#readDescription(nameAt);
    }
    reader.tensorAt = -1;
  }

  /**
   * Reads a description as nearly all writers spell it: no whitespace, the fields in this order, no
   * number above 15 digits. Returns false, with a part consumed, for any other, valid or not.
   */
  #readCanonicalDescription(nameAt: number): boolean {
    const reader = this.#reader;
    const { bytes } = reader;
    // Most files have one dtype, and others come in runs.
    if (!reader.skipLiteral(CANONICAL_STARTS[this.#lastDtype] as ExpectedText)) {
      const dtype = CANONICAL_STARTS.findIndex((start) => reader.skipLiteral(start));
      if (dtype === -1) return false;
      this.#lastDtype = dtype;
    }
    const shapeAt = reader.at - 1;
    let count = 1;
    if (bytes[reader.at] !== CLOSE_BRACKET) {
      for (;;) {
        const dimension = reader.readShortUnsigned();
        if (dimension === -1) return false;
        count *= dimension;
        if (count > MAX_SAFE_INTEGER) count = NaN;
        if (bytes[reader.at] !== COMMA) break;
        reader.at++;
      }
    }
    if (!reader.skipLiteral(CANONICAL_OFFSETS)) return false;
    const begin = reader.readShortUnsigned();
    if (begin === -1 || bytes[reader.at] !== COMMA) return false;
    reader.at++;
    const end = reader.readShortUnsigned();
    if (end === -1) return false;
    if (bytes[reader.at] !== CLOSE_BRACKET || bytes[reader.at + 1] !== CLOSE_BRACE) return false;
    reader.at += 2;
    const { beginHigh, beginLow, endHigh, endLow, size } = this.columns;
    beginLow[size] = begin;
    beginHigh[size] = begin / 2 ** 32;
    endLow[size] = end;
    endHigh[size] = end / 2 ** 32;
    const spelling = reader.isEscaped ? 0 : CANONICAL;
    this.#addEntry(nameAt, this.#lastDtype, spelling, shapeAt, count, begin, end);
    return true;
  }

  #readDescription(nameAt: number): void {
    const reader = this.#reader;
    if (reader.peek() !== OPEN_BRACE) reader.fail('an object that describes the tensor');
    const objectAt = reader.at;
    this.#dtype = -1;
    this.#shapeAt = -1;
    this.#hasOffsets = false;
    this.#keys.clear();
    if (reader.enter(CLOSE_BRACE)) {
      do {
        reader.peek();
        const keyAt = reader.at;
        const field = this.#readField();
        if (field === 0) this.#readDtype(keyAt);
        else if (field === 1) this.#readShape(keyAt);
        else if (field === 2) this.#readOffsets(keyAt);
        else {
          this.#keys.add(keyAt + 1);
          skipValue(reader, 2);
        }
      } while (reader.hasNext(CLOSE_BRACE));
    }
    const isComplete = this.#dtype !== -1 && this.#shapeAt !== -1 && this.#hasOffsets;
    if (!isComplete) this.#failMissing(objectAt);
    this.#noteRepeated(objectAt);
    const { columns } = this;
    const begin = columns.begin(columns.size);
    const end = columns.end(columns.size);
    this.#addEntry(nameAt, this.#dtype, 0, this.#shapeAt, this.#elementCount, begin, end);
  }

  /** Consumes a key and its colon; returns its place in `FIELDS`, -1 for any other key. */
  #readField(): number {
    const reader = this.#reader;
    for (let field = 0; field < CANONICAL_FIELDS.length; field++) {
      if (reader.skipLiteral(CANONICAL_FIELDS[field] as ExpectedText)) return field;
    }
    const keyAt = reader.readKey();
    // A field without escapes and with its colon right after it would have been recognised above.
    if (!reader.isEscaped && reader.bytes[reader.stringEnd + 1] === COLON) return -1;
    return FIELD_KEYS.findIndex((name) => this.#isKey(keyAt, name));
  }

  #readDtype(keyAt: number): void {
    const reader = this.#reader;
    if (this.#dtype !== -1) reader.failAt(keyAt, 'no second "dtype"');
    if (reader.peek() !== QUOTE) reader.fail('a dtype in double quotes');
    const start = reader.readString();
    const dtype = DTYPE_KEYS.findIndex((name) => this.#isKey(start, name));
    if (dtype === -1) {
      const name = decodeString(reader.bytes, start);
      const hint = OLD_DTYPE.test(name) ? `, ${OLD_DRAFT}` : '';
      reader.failAt(start, 'one of the dtypes of the format', `${quoteName(name)}${hint}`);
    }
    this.#dtype = dtype;
  }

  #readShape(keyAt: number): void {
    const reader = this.#reader;
    if (this.#shapeAt !== -1) reader.failAt(keyAt, 'no second "shape"');
    if (reader.peek() !== OPEN_BRACKET) reader.fail('an array of dimensions');
    this.#shapeAt = reader.at;
    let count = 1;
    if (reader.enter(CLOSE_BRACKET)) {
      do {
        const dimension = reader.readUnsigned();
        count *= dimension;
        if (dimension > MAX_SAFE_INTEGER || count > MAX_SAFE_INTEGER) count = NaN;
      } while (reader.hasNext(CLOSE_BRACKET));
    }
    this.#elementCount = count;
  }

  #readOffsets(keyAt: number): void {
    const reader = this.#reader;
    if (this.#hasOffsets) reader.failAt(keyAt, 'no second "data_offsets"');
    this.#hasOffsets = true;
    if (reader.peek() !== OPEN_BRACKET) reader.fail('an array of two offsets');
    reader.at++;
    // Written to the row after the last entry, which #addEntry completes.
    const { beginHigh, beginLow, endHigh, endLow, size } = this.columns;
    const { halves } = reader;
    reader.readUnsigned();
    beginLow[size] = halves[0] as number;
    beginHigh[size] = halves[1] as number;
    if (!reader.hasNext(CLOSE_BRACKET)) reader.fail('a second offset');
    reader.readUnsigned();
    endLow[size] = halves[0] as number;
    endHigh[size] = halves[1] as number;
    reader.expect(CLOSE_BRACKET, '"]" after the second offset');
  }

  /** Completes the row whose offsets are written; `begin` and `end` may be rounded above 2^53. */
  #addEntry(
    nameAt: number,
    dtype: number,
    spelling: number,
    shapeAt: number,
    elementCount: number,
    begin: number,
    end: number,
  ): void {
    const { columns } = this;
    const entry = columns.size;
    columns.nameAt[entry] = nameAt;
    columns.shapeAt[entry] = shapeAt;
    const bits = elementCount * (DTYPE_BITS[dtype] as number);
    const isProven =
      bits === (end - begin) * 8 && bits <= MAX_SAFE_INTEGER && end <= MAX_SAFE_INTEGER;
    columns.kind[entry] = dtype | spelling | (isProven ? 0 : UNPROVEN);
    columns.size = entry + 1;
  }

  #isKey(at: number, key: Uint8Array): boolean {
    return compareStrings(this.#reader.bytes, at, key, 0) === 0;
  }

  #noteRepeated(objectAt: number): void {
    if (this.duplicateAt !== -1) return;
    this.duplicateAt = this.#keys.findRepeated(this.#reader, objectAt);
  }

  #failMissing(objectAt: number): never {
    const reader: JsonReader = this.#reader;
    const missing: string[] = [];
    if (this.#dtype === -1) missing.push('"dtype"');
    if (this.#shapeAt === -1) missing.push('"shape"');
    if (!this.#hasOffsets) missing.push('"data_offsets"');
    const expected = `${missing.join(' and ')} in the tensor's description`;
    const hasOldOffsets = !this.#hasOffsets && this.#keys.includes(reader.bytes, OLD_DATA_OFFSETS);
    reader.failAt(objectAt, expected, hasOldOffsets ? `"offsets", ${OLD_DRAFT}` : 'none');
  }
}
