/** The bytes of a checkpoint's index, as `huggingface_hub` writes it. */

import { argumentRangeError } from '../../errors/arguments.js';
import { EncodedText } from '../../header/json/encoded-text.js';
import { decodeString, encodeText, printableEnd, type Text } from '../../header/json/strings.js';

/** A value in the index's metadata; objects are Maps, which keep their order. */
export type IndexValue =
  | string
  | number
  | boolean
  | null
  | readonly IndexValue[]
  | ReadonlyMap<string, IndexValue>;

/** Characters that Python escapes and JSON.stringify does not: all but printable ASCII. */
const NOT_ASCII = /[\u007f-\uffff]/g;
const HAS_NOT_ASCII = /[\u007f-\uffff]/;

const INDEX_INDENT = '  ';
const LINE_START = `\n${INDEX_INDENT}`;
const NAME_START = LINE_START + INDEX_INDENT;

/** Usual bytes per tensor, with a name of 50 to 60 characters. */
const TYPICAL_LINE_BYTE_LENGTH = 110;

/**
 * An index: JSON with `metadata` and `weight_map` (file by tensor) in the order given, indented by
 * two, in ASCII, without a line end: byte for byte what `huggingface_hub` writes.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for a number that JSON does not have (NaN, infinities)
 */
export function encodeIndex(
  metadata: ReadonlyMap<string, IndexValue>,
  weightMap: Iterable<readonly [tensor: string, filename: string]>,
): Uint8Array {
  const index = new FormattedIndex(metadata);
  for (const [tensor, filename] of weightMap) index.add(tensor, filename);
  return index.encoded();
}

/** The same, tensor by tensor. */
export class FormattedIndex {
  readonly #text: EncodedText;
  /** The text before the next name: the file of the name before, a comma, a new line. */
  #before = NAME_START;
  #encodedBefore = encodeText(NAME_START);
  #filename: string | undefined;

  /** `tensorCount` is how many there will be, about. */
  constructor(metadata: ReadonlyMap<string, IndexValue>, tensorCount = 0) {
    this.#text = new EncodedText(undefined, tensorCount * TYPICAL_LINE_BYTE_LENGTH);
    this.#text.append(`{${LINE_START}"metadata": ${indexText(metadata, LINE_START)},`);
    this.#text.append(`${LINE_START}"weight_map": {`);
  }

  /** Adds a tensor; its name may be given where it stands. Neighbours should have one file. */
  add(tensor: string | JsonString, filename: string): void {
    if (typeof tensor === 'string') this.#text.append(this.#before + quote(tensor));
    else this.#addString(tensor);
    if (filename === this.#filename) return;
    this.#filename = filename;
    this.#before = `: ${quote(filename)},${NAME_START}`;
    this.#encodedBefore = encodeText(this.#before);
  }

  #addString({ text, start }: JsonString): void {
    this.#text.appendPart(this.#encodedBefore);
    const end = printableEnd(text, start);
    if (end === -1) this.#text.append(quote(decodeString(text.bytes, start)));
    else this.#text.appendPart(text, start - 1, end + 1);
  }

  /** All bytes. Add nothing afterwards. */
  encoded(): Uint8Array {
    const last = this.#filename;
    this.#text.append(last === undefined ? '}\n}' : `: ${quote(last)}${LINE_START}}\n}`);
    return this.#text.encoded();
  }
}

/** A string that stands in a JSON text, where it was checked: its first byte after the quote. */
export interface JsonString {
  readonly text: Text;
  readonly start: number;
}

/** `lineStart` is a line feed and the indentation of the line on which the value begins. */
function indexText(value: IndexValue, lineStart: string): string {
  if (typeof value === 'string') return quote(value);
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw argumentRangeError('a number of the metadata', 'finite', value);
  }
  if (typeof value !== 'object' || value === null) return String(value);
  const inner = lineStart + INDEX_INDENT;
  const items: string[] = [];
  if (isEntries(value)) {
    for (const [key, item] of value) items.push(`${quote(key)}: ${indexText(item, inner)}`);
    return enclose('{', items, '}', lineStart);
  }
  for (const item of value) items.push(indexText(item, inner));
  return enclose('[', items, ']', lineStart);
}

function isEntries(
  value: readonly IndexValue[] | ReadonlyMap<string, IndexValue>,
): value is ReadonlyMap<string, IndexValue> {
  return !Array.isArray(value);
}

function enclose(open: string, items: string[], close: string, lineStart: string): string {
  if (items.length === 0) return open + close;
  const inner = lineStart + INDEX_INDENT;
  return `${open}${inner}${items.join(`,${inner}`)}${lineStart}${close}`;
}

function quote(text: string): string {
  const json = JSON.stringify(text);
  if (!HAS_NOT_ASCII.test(json)) return json;
  return json.replace(
    NOT_ASCII,
    (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`,
  );
}
