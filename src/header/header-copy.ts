/**
 * The header of a new file whose tensors stand in parsed headers. Names and shapes are copied as bytes:
 * no strings and no objects for a hundred thousand tensors.
 */

import { DTYPE_NAMES } from './dtype.js';
import type { Header } from './header.js';
import {
  appendMetadata,
  frameHeader,
  type MetadataInput,
  requireDataByteLength,
  requireHeaderLength,
  TYPICAL_ENTRY_BYTE_LENGTH,
} from './header-writer.js';
import { EncodedText } from './json/encoded-text.js';
import { CLOSE_BRACKET } from './json/reader.js';
import { compareJsonStrings, encodeText, type Text, unescapedEnd } from './json/strings.js';
import { reservedDigests } from './tensor-digests.js';

/** Finds the header and entry of a tensor by its number. All names differ. */
export interface HeaderEntries {
  /** The header that lists a tensor. */
  header(number: number): Header;
  /** Its entry in that header. */
  entry(number: number): number;
}

/** A file without its data. */
interface CopiedLayout {
  /** The first bytes of the file. */
  readonly header: Uint8Array<ArrayBuffer>;
  /** The numbers of the tensors in the order of their bytes, without gaps. */
  readonly numbers: Uint32Array;
  /** Length of the whole file in bytes. */
  readonly byteLength: number;
}

const OFFSETS = encodeText(',"data_offsets":[');
const SEPARATOR = encodeText(',');
const SHAPE_END = encodeText(']}');
/** The JSON between name and shape, by the rank of the dtype. */
const DTYPE_TEXTS = DTYPE_NAMES.map((dtype) => encodeText(`:{"dtype":"${dtype}","shape":`));

/**
 * Lays out a file of these tensors, as `layOut` does with the same tensors; `hasDigests` leaves room for their digests.
 *
 * @throws InvalidTensorError as `layOut`
 */
export function layOutEntries(
  entries: HeaderEntries,
  numbers: readonly number[],
  metadata: MetadataInput | null,
  hasDigests = false,
): CopiedLayout {
  const sorted = sortedNumbers(entries, numbers);
  const text = new EncodedText(requireHeaderLength, numbers.length * TYPICAL_ENTRY_BYTE_LENGTH);
  const first = appendMetadata(
    text,
    metadata,
    hasDigests ? reservedDigests(sorted.length) : undefined,
  );
  let dataEnd = 0;
  for (let i = 0; i < sorted.length; i++) {
    if (i === 0) text.append(first);
    else text.appendPart(SEPARATOR);
    dataEnd = appendEntry(text, entries, sorted[i] as number, dataEnd);
  }
  requireDataByteLength(dataEnd);
  text.append(sorted.length === 0 && first === '{' ? '{}' : '}');
  const header = frameHeader(text);
  return { header, numbers: sorted, byteLength: header.byteLength + dataEnd };
}

/** Appends a tensor whose data begins at `begin`; returns the end of the data. */
function appendEntry(
  text: EncodedText,
  entries: HeaderEntries,
  number: number,
  begin: number,
): number {
  const header = entries.header(number);
  const entry = entries.entry(number);
  const end = begin + header.end(entry) - header.begin(entry);
  if (header.isCanonical(entry)) {
    let shapeEnd = header.shapeAt(entry) + 1;
    while (header.json[shapeEnd - 1] !== CLOSE_BRACKET) shapeEnd++;
    text.appendPart(header.source, header.nameAt(entry) - 1, shapeEnd + OFFSETS.bytes.length);
  } else {
    appendName(text, header, entry);
    text.appendPart(DTYPE_TEXTS[header.dtypeRank(entry)] as Text);
    text.append(`[${header.shape(entry).join()}]`);
    text.appendPart(OFFSETS);
  }
  text.appendInteger(begin);
  text.appendPart(SEPARATOR);
  text.appendInteger(end);
  text.appendPart(SHAPE_END);
  return end;
}

/** Copies the JSON of a name without escapes: the writer would spell it the same. */
function appendName(text: EncodedText, header: Header, entry: number): void {
  const start = header.nameAt(entry);
  const end = unescapedEnd(header.json, start);
  if (end === -1) text.append(JSON.stringify(header.name(entry)));
  else text.appendPart(header.source, start - 1, end + 1);
}

/** By dtype rank, descending, then by name. Files that other writers made are sorted runs already. */
function sortedNumbers(entries: HeaderEntries, numbers: readonly number[]): Uint32Array {
  const byRank: number[][] = DTYPE_NAMES.map(() => []);
  for (let i = 0; i < numbers.length; i++) {
    const number = numbers[i] as number;
    (byRank[entries.header(number).dtypeRank(entries.entry(number))] as number[]).push(number);
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

/** Whether `layOutEntries` leaves the tensors from 0 to below `size` in this order. */
export function areSorted(entries: HeaderEntries, size: number): boolean {
  const rankOf = (number: number): number =>
    entries.header(number).dtypeRank(entries.entry(number));
  for (let number = 1; number < size; number++) {
    const ranks = rankOf(number - 1) - rankOf(number);
    if (ranks < 0 || (ranks === 0 && compareNames(entries, number - 1, number) > 0)) return false;
  }
  return true;
}

function compareNames(entries: HeaderEntries, a: number, b: number): number {
  const first = entries.header(a);
  const second = entries.header(b);
  const firstAt = first.nameAt(entries.entry(a));
  const secondAt = second.nameAt(entries.entry(b));
  return compareJsonStrings(first.source, firstAt, second.source, secondAt);
}
