/**
 * The header of a new file whose tensors stand in parsed headers. Names and shapes are copied as bytes:
 * no strings and no objects for a hundred thousand tensors.
 */

import { EncodedText } from '../json/encoded-text.js';
import { compareTexts, unescapedEnd } from '../json/strings.js';
import { DTYPE_NAMES } from './dtype.js';
import type { Header } from './header.js';
import {
  appendMetadata,
  frameHeader,
  type MetadataInput,
  requireDataByteLength,
  requireHeaderLength,
} from './header-writer.js';

/** Tensors by number, and where each stands. No two have one name. */
export interface HeaderEntries {
  /** The header that has a tensor. */
  header(number: number): Header;
  /** Its entry in that header. */
  entry(number: number): number;
}

/** A file without its data. */
export interface CopiedLayout {
  /** The first bytes of the file. */
  readonly header: Uint8Array<ArrayBuffer>;
  /** The numbers of the tensors in the order of their bytes, without gaps. */
  readonly numbers: Uint32Array;
  /** Length of the whole file in bytes. */
  readonly byteLength: number;
}

const CLOSE_BRACKET = 0x5d;

/** What an entry mostly takes, with a name of 50 to 60 characters. */
const USUAL_ENTRY_BYTE_LENGTH = 160;

const encoder = new TextEncoder();
const OFFSETS = encoder.encode(',"data_offsets":[');
const SEPARATOR = encoder.encode(',');
const END = encoder.encode(']}');
/** What stands between name and shape, by the rank of the dtype. */
const DTYPES = DTYPE_NAMES.map((dtype) => encoder.encode(`:{"dtype":"${dtype}","shape":`));

/**
 * Lays out a file of these tensors, as `layOut` does with the same tensors.
 *
 * @throws InvalidTensorError as `layOut`
 */
export function layOutEntries(
  entries: HeaderEntries,
  numbers: readonly number[],
  metadata: MetadataInput | null,
): CopiedLayout {
  const sorted = sortedNumbers(entries, numbers);
  const text = new EncodedText(requireHeaderLength, numbers.length * USUAL_ENTRY_BYTE_LENGTH);
  let separator = appendMetadata(text, metadata);
  let begin = 0;
  for (const number of sorted) {
    const header = entries.header(number);
    const entry = entries.entry(number);
    const end = begin + header.end(entry) - header.begin(entry);
    if (separator === ',') text.appendBytes(SEPARATOR);
    else text.append(separator);
    separator = ',';
    appendEntry(text, header, entry, begin, end);
    begin = end;
  }
  requireDataByteLength(begin);
  text.append(separator === '{' ? '{}' : '}');
  const header = frameHeader(text);
  return { header, numbers: sorted, byteLength: header.byteLength + begin };
}

function appendEntry(
  text: EncodedText,
  header: Header,
  entry: number,
  begin: number,
  end: number,
): void {
  if (header.isUsual(entry)) {
    const shapeEnd = header.json.indexOf(CLOSE_BRACKET, header.shapeAt(entry)) + 1;
    text.appendBytes(header.json, header.nameAt(entry) - 1, shapeEnd + OFFSETS.length);
  } else {
    appendName(text, header, entry);
    text.appendBytes(DTYPES[header.dtypeRank(entry)] as Uint8Array);
    text.append(`[${header.shape(entry).join()}]`);
    text.appendBytes(OFFSETS);
  }
  text.appendInteger(begin);
  text.appendBytes(SEPARATOR);
  text.appendInteger(end);
  text.appendBytes(END);
}

/** Without escapes a name is spelled as it would be written. */
function appendName(text: EncodedText, header: Header, entry: number): void {
  const start = header.nameAt(entry);
  const end = unescapedEnd(header.json, start);
  if (end === -1) text.append(JSON.stringify(header.name(entry)));
  else text.appendBytes(header.json, start - 1, end + 1);
}

/** By dtype rank, descending, then by name. Files that other writers made are sorted runs already. */
function sortedNumbers(entries: HeaderEntries, numbers: readonly number[]): Uint32Array {
  const byRank: number[][] = DTYPE_NAMES.map(() => []);
  for (const number of numbers) {
    byRank[entries.header(number).dtypeRank(entries.entry(number))]?.push(number);
  }
  const sorted = new Uint32Array(numbers.length);
  let filled = 0;
  for (const group of byRank.reverse()) {
    group.sort((a, b) => compareNames(entries, a, b));
    sorted.set(group, filled);
    filled += group.length;
  }
  return sorted;
}

function compareNames(entries: HeaderEntries, a: number, b: number): number {
  const [first, second] = [entries.header(a), entries.header(b)];
  const [firstAt, secondAt] = [first.nameAt(entries.entry(a)), second.nameAt(entries.entry(b))];
  return compareTexts(first.source, firstAt, second.source, secondAt);
}
