/**
 * Step 5 of reading a header: one pass over its JSON, by the rules for the header object, the
 * metadata and the tensors' descriptions. The values are only noted down, in `TensorColumns`.
 */

import { quoteName } from '../errors/errors.js';
import { ObjectKeys } from '../json/duplicate-keys.js';
import { hashString, processHashKey } from '../json/key-hash.js';
import {
  CLOSE_BRACE,
  CLOSE_BRACKET,
  COLON,
  COMMA,
  type JsonReader,
  Literal,
  OPEN_BRACE,
  OPEN_BRACKET,
  QUOTE,
} from '../json/reader.js';
import { skipNull, skipValue } from '../json/skip.js';
import { compareStrings, decodeString } from '../json/strings.js';
import { DTYPE_NAMES, DTYPES } from './dtype.js';
import { TensorColumns, UNPROVEN } from './tensor-columns.js';

const encoder = new TextEncoder();

/** A JSON string without its opening quote: what `compareStrings` compares. */
function keyBytes(text: string): Uint8Array {
  return encoder.encode(`${text}"`);
}

/** The name that stands for the metadata; no tensor can have it. */
export const METADATA_NAME = '__metadata__';
const METADATA_KEY: Uint8Array = keyBytes(METADATA_NAME);
/** The keys of a description. */
const FIELDS: readonly Uint8Array[] = [
  keyBytes('dtype'),
  keyBytes('shape'),
  keyBytes('data_offsets'),
];
/** What the oldest draft of the format called the offsets. */
const OLD_DATA_OFFSETS: Uint8Array = keyBytes('offsets');
/** The dtypes by their codes. */
const DTYPES_AS_KEYS: readonly Uint8Array[] = DTYPE_NAMES.map(keyBytes);
/** The usual spelling of a field's key. */
const USUAL_FIELDS: readonly Literal[] = ['dtype', 'shape', 'data_offsets'].map(
  (key) => new Literal(`"${key}":`),
);
/** The usual start of a description, by the dtype's code. */
const USUAL_STARTS: readonly Literal[] = DTYPE_NAMES.map(
  (name) => new Literal(`{"dtype":"${name}","shape":[`),
);
/** What usually stands between shape and offsets. */
const USUAL_OFFSETS: Literal = new Literal('],"data_offsets":[');

/** Dtypes of the oldest draft were spelled as those of numpy and torch. */
const OLD_DTYPE: RegExp = /^(b?float|u?int)\d+$|^bool$/;
/** For messages. */
const OLD_DRAFT = 'as in the oldest draft of the format, which no reader accepts any more';

/** `"":{"dtype":"U8","shape":[],"data_offsets":[0,0]},`: no tensor takes fewer bytes. */
const MIN_TENSOR_BYTE_LENGTH = 50;

/** Kept here: asking `Number` for it costs more than comparing, as long as code is interpreted. */
const MAX_SAFE_INTEGER = Number.MAX_SAFE_INTEGER;
const UNDERSCORE = 0x5f;

const DTYPE_BITS = DTYPE_NAMES.map((name) => DTYPES[name].bits);

/** After an unusual description as many are not tried as usual ones: a writer has one spelling. */
const UNTRIED_DESCRIPTIONS = 15;

/** Reads the header object and keeps where everything stands. */
export class HeaderParser {
  /** The tensors, in the header's order. */
  readonly columns: TensorColumns;
  /** Position of the metadata's value, an object or `null`; -1 when there is none. */
  metadataAt = -1;
  /** Position behind it. */
  metadataEnd = -1;
  /** Position of the first repeated key among those only this project refuses; -1 if none. */
  duplicateAt = -1;
  readonly #reader: JsonReader;
  #dtype = -1;
  #lastDtype = 0;
  #shapeAt = -1;
  /** Product of the dimensions; NaN when it, or one of them, is above 2^53 - 1. */
  #elementCount = 0;
  #hasOffsets = false;
  /** Keys of the metadata, or those of a description that have no meaning. */
  readonly #keys = new ObjectKeys();

  /** The reader stands at the opening brace of the header. */
  constructor(reader: JsonReader) {
    this.#reader = reader;
    this.columns = new TensorColumns(Math.floor(reader.bytes.length / MIN_TENSOR_BYTE_LENGTH) + 1);
  }

  /** Reads the whole header. */
  parse(): void {
    const { columns } = this;
    const reader = this.#reader;
    const { bytes } = reader;
    const hashKey = processHashKey(bytes.length);
    let unusual = 0;
    if (reader.enter(CLOSE_BRACE)) {
      do {
        const nameAt = reader.readKey();
        if (
          (bytes[nameAt] === UNDERSCORE || reader.isEscaped) &&
          this.#isKey(nameAt, METADATA_KEY)
        ) {
          this.#readMetadata(nameAt);
        } else {
          reader.tensorAt = nameAt;
          columns.nameHash[columns.size] = hashString(reader, nameAt, hashKey);
          const objectAt = reader.at;
          if (unusual > 0 || !this.#readUsualDescription(nameAt)) {
            unusual = unusual > 0 ? unusual - 1 : UNTRIED_DESCRIPTIONS;
            reader.at = objectAt;
            this.#readDescription(nameAt);
          }
          reader.tensorAt = -1;
        }
      } while (reader.hasNext(CLOSE_BRACE));
    }
    reader.expectEnd();
  }

  #isKey(at: number, key: Uint8Array): boolean {
    return compareStrings(this.#reader.bytes, at, key, 0) === 0;
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
      this.#keys.add(reader.readKey());
      if (reader.peek() !== QUOTE) reader.fail('a string as the value of a metadata key');
      reader.readString();
    } while (reader.hasNext(CLOSE_BRACE));
    this.#noteRepeated(this.metadataAt);
  }

  #noteRepeated(objectAt: number): void {
    if (this.duplicateAt !== -1) return;
    this.duplicateAt = this.#keys.findRepeated(this.#reader, objectAt);
  }

  /**
   * Reads a description as nearly all writers spell it: nothing between the tokens, the fields in
   * this order, no long numbers. False for any other, valid or not, of which a part is consumed.
   */
  #readUsualDescription(nameAt: number): boolean {
    const reader = this.#reader;
    const { bytes } = reader;
    // Most files have one dtype, and those of several repeat each of them.
    if (!reader.skipLiteral(USUAL_STARTS[this.#lastDtype] as Literal)) {
      const dtype = USUAL_STARTS.findIndex((start) => reader.skipLiteral(start));
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
    if (!reader.skipLiteral(USUAL_OFFSETS)) return false;
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
    this.#addEntry(nameAt, this.#lastDtype, shapeAt, count, begin, end);
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
    if (this.#dtype === -1 || this.#shapeAt === -1 || !this.#hasOffsets)
      this.#failMissing(objectAt);
    this.#noteRepeated(objectAt);
    const { columns } = this;
    const begin = columns.begin(columns.size);
    const end = columns.end(columns.size);
    this.#addEntry(nameAt, this.#dtype, this.#shapeAt, this.#elementCount, begin, end);
  }

  /** Consumes a key and its colon; returns its place in `FIELDS`, -1 for any other key. */
  #readField(): number {
    const reader = this.#reader;
    for (let field = 0; field < USUAL_FIELDS.length; field++) {
      if (reader.skipLiteral(USUAL_FIELDS[field] as Literal)) return field;
    }
    const keyAt = reader.readKey();
    // Without escapes, and with the colon right behind it, a field would have been recognised.
    if (!reader.isEscaped && reader.bytes[reader.stringEnd + 1] === COLON) return -1;
    return FIELDS.findIndex((name) => this.#isKey(keyAt, name));
  }

  #readDtype(keyAt: number): void {
    const reader = this.#reader;
    if (this.#dtype !== -1) reader.failAt(keyAt, 'no second "dtype"');
    if (reader.peek() !== QUOTE) reader.fail('a dtype in double quotes');
    const start = reader.readString();
    const dtype = DTYPES_AS_KEYS.findIndex((name) => this.#isKey(start, name));
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
    // Written behind the last entry: it becomes one when the description is complete.
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
    columns.kind[entry] = isProven ? dtype : dtype | UNPROVEN;
    columns.size = entry + 1;
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
