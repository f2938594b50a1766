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
  const nameStart = lineStart + INDENT;
  let before = encodePart(nameStart);
  let between = before;
  let last: string | undefined;
  for (const [tensor, filename] of weightMap) {
    appendName(text, before, tensor);
    if (filename !== last) between = encodePart(`: ${quote(filename)},${nameStart}`);
    last = filename;
    before = between;
  }
  text.append(last === undefined ? '}\n}' : `: ${quote(last)}${lineStart}}\n}`);
  return text.encoded();
}

/** A string that stands in a JSON text, where it was checked: its first byte behind the quote. */
export interface JsonString {
  readonly text: Text;
  readonly start: number;
}

const encoder = new TextEncoder();

/** What stands between the names of two tensors: the file of the first, a comma, a new line. */
interface Part {
  readonly text: string;
  readonly bytes: Uint8Array;
}

function encodePart(text: string): Part {
  return { text, bytes: encoder.encode(text) };
}

function appendName(text: EncodedText, before: Part, tensor: string | JsonString): void {
  if (typeof tensor === 'string') {
    text.append(before.text + quote(tensor));
    return;
  }
  const { text: source, start } = tensor;
  const end = printableEnd(source, start);
  if (end === -1) {
    text.append(before.text + quote(decodeString(source.bytes, start)));
    return;
  }
  text.appendBytes(before.bytes);
  text.appendBytes(source.bytes, start - 1, end + 1);
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
