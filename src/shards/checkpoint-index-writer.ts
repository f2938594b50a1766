/** The bytes of a checkpoint's index, as `huggingface_hub` writes it. */

import { argumentRangeError } from '../errors/arguments.js';
import { EncodedText } from '../json/encoded-text.js';
import { decodeString, printableEnd, type Text } from '../json/strings.js';

/** What a value of the index's metadata can be; objects are Maps, which keep their order. */
export type IndexValue =
  | string
  | number
  | boolean
  | null
  | readonly IndexValue[]
  | ReadonlyMap<string, IndexValue>;

/** What JSON.stringify leaves and Python escapes: everything that is not printable ASCII. */
const NOT_ASCII = /[\u007f-\uffff]/g;
const HAS_NOT_ASCII = /[\u007f-\uffff]/;

const INDENT = '  ';

/** What a tensor mostly takes, with a name of 50 to 60 characters. */
const USUAL_LINE_BYTE_LENGTH = 110;

/**
 * An index: JSON with `metadata` and `weight_map` (file by tensor) in the order given, indented by
 * two, in ASCII, without a line end: byte for byte what `huggingface_hub` writes. Names may be given
 * where they stand; neighbours should have one file. `tensorCount` is how many there are, about.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for a number that JSON does not have (NaN, infinities)
 */
export function encodeIndex(
  metadata: ReadonlyMap<string, IndexValue>,
  weightMap: Iterable<readonly [tensor: string | JsonString, filename: string]>,
  tensorCount = 0,
): Uint8Array {
  const text = new EncodedText(undefined, tensorCount * USUAL_LINE_BYTE_LENGTH);
  const lineStart = `\n${INDENT}`;
  text.append(`{${lineStart}"metadata": ${textOf(metadata, lineStart)},`);
  text.append(`${lineStart}"weight_map": {`);
  let separator = '';
  let line = new LineParts(lineStart + INDENT, '');
  for (const [tensor, filename] of weightMap) {
    if (filename !== line.filename) line = new LineParts(lineStart + INDENT, filename);
    line.append(text, separator, tensor);
    separator = ',';
  }
  text.append(separator === '' ? '}\n}' : `${lineStart}}\n}`);
  return text.encoded();
}

/** A string that stands in a JSON text, where it was checked: its first byte behind the quote. */
export interface JsonString {
  readonly text: Text;
  readonly start: number;
}

const encoder = new TextEncoder();

/** What the lines of the tensors of one file have in common. */
class LineParts {
  readonly filename: string;
  readonly #start: string;
  readonly #end: string;
  readonly #startBytes: Uint8Array;
  readonly #endBytes: Uint8Array;

  constructor(start: string, filename: string) {
    this.filename = filename;
    this.#start = start;
    this.#end = `: ${quote(filename)}`;
    this.#startBytes = encoder.encode(`,${start}`);
    this.#endBytes = encoder.encode(this.#end);
  }

  append(text: EncodedText, separator: string, tensor: string | JsonString): void {
    if (typeof tensor === 'string') {
      text.append(separator + this.#start + quote(tensor) + this.#end);
      return;
    }
    const { text: source, start } = tensor;
    const end = printableEnd(source, start);
    if (end === -1) {
      this.append(text, separator, decodeString(source.bytes, start));
      return;
    }
    text.appendBytes(this.#startBytes, separator === '' ? 1 : 0);
    text.appendBytes(source.bytes, start - 1, end + 1);
    text.appendBytes(this.#endBytes);
  }
}

/** `lineStart` is a line feed and the indentation of the line on which the value begins. */
function textOf(value: IndexValue, lineStart: string): string {
  if (typeof value === 'string') return quote(value);
  if (typeof value === 'number' && !Number.isFinite(value)) {
    throw argumentRangeError('a number of the metadata', 'finite', value);
  }
  if (typeof value !== 'object' || value === null) return String(value);
  const inner = lineStart + INDENT;
  const items: string[] = [];
  if (isMap(value)) {
    for (const [key, item] of value) items.push(`${quote(key)}: ${textOf(item, inner)}`);
    return enclose('{', items, '}', lineStart);
  }
  for (const item of value) items.push(textOf(item, inner));
  return enclose('[', items, ']', lineStart);
}

function isMap(
  value: readonly IndexValue[] | ReadonlyMap<string, IndexValue>,
): value is ReadonlyMap<string, IndexValue> {
  return !Array.isArray(value);
}

function enclose(open: string, items: string[], close: string, lineStart: string): string {
  if (items.length === 0) return open + close;
  const inner = lineStart + INDENT;
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
