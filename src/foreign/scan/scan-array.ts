/** Scans NumPy arrays: a header and exactly its numbers, or a pickle of objects. */

import { FormatError } from '../../errors/errors.js';
import { itemLengthOf, OBJECTS } from '../numpy/item-lengths.js';
import {
  isKnownVersion,
  isNpy,
  type NpyInfo,
  npyHeaderEnd,
  parseNpyInfo,
} from '../numpy/npy-header.js';
import { mayRun } from '../pickle/scan.js';
import type { ByteReader } from '../zip/archive.js';
import type { ScanNotes } from './scan-notes.js';
import { isPickleAt } from './scan-stream.js';

/** A file or an entry. */
export interface ArraySource {
  readonly entry: string | undefined;
  readonly byteLength: number;
  /** The first bytes: at least `byteLength`, or all. */
  start(byteLength: number): Uint8Array;
  /** The bytes that may be scanned as pickles. */
  head(): Uint8Array;
}

/** Longest usual header that NumPy writes. */
const SCANNED_START_BYTE_LENGTH = 256;

/** Longest header of records with very many fields; by default NumPy refuses to read such headers. */
const MAX_SCANNED_START_BYTE_LENGTH = 2 ** 16;

/** Scans the arrays of a file, which `numpy.save` can write one after the other. */
export function scanArrays(file: ByteReader, notes: ScanNotes): void {
  const upTo = (begin: number, end: number): Uint8Array =>
    file.read(begin, Math.min(end, file.byteLength));
  for (let at = 0; ; ) {
    const begin = at;
    const length = scanArray(
      {
        entry: undefined,
        byteLength: file.byteLength - begin,
        start: (byteLength) => upTo(begin, begin + byteLength),
        head: () => upTo(begin, begin + notes.limits.maxPickleByteLength + 1),
      },
      notes,
    );
    if (length === undefined) return;
    at += length;
    if (at === file.byteLength) return;
    if (!isNpy(upTo(at, at + SCANNED_START_BYTE_LENGTH))) {
      notes.add('trailing-bytes', 'bytes after the items of an array', at);
      return;
    }
  }
}

/** Scans one array; returns its end, or undefined if the end is unknown. */
export function scanArray(source: ArraySource, notes: ScanNotes): number | undefined {
  const { byteLength, entry } = source;
  let start = source.start(SCANNED_START_BYTE_LENGTH);
  const end = npyHeaderEnd(start) ?? Number.POSITIVE_INFINITY;
  if (end > byteLength) {
    notes.addProblem(`expected a NumPy header up to byte ${end}, found ${byteLength} bytes`);
    return undefined;
  }
  if (!notes.spendHeader(Math.min(end, MAX_SCANNED_START_BYTE_LENGTH))) {
    notes.add('limit', 'the headers of all arrays are longer than the scan reads', 0, entry);
    return undefined;
  }
  if (end > start.length && end <= MAX_SCANNED_START_BYTE_LENGTH) start = source.start(end);
  let facts: NpyInfo;
  try {
    facts = parseNpyInfo(start, {}, MAX_SCANNED_START_BYTE_LENGTH);
  } catch (error) {
    if (!(error instanceof FormatError)) throw error;
    const isLimit = isKnownVersion(start) && end > MAX_SCANNED_START_BYTE_LENGTH;
    notes.add(isLimit ? 'limit' : 'header', error.message, 0, entry);
    notePickle(source, end, notes, false);
    return undefined;
  }
  const itemLength = itemLengthOf(facts.descr);
  if (itemLength === undefined) {
    notes.add('header', 'expected a descr as NumPy writes it, found another one', 0, entry);
    notePickle(source, end, notes, false);
    return undefined;
  }
  if (itemLength === OBJECTS) return notePickle(source, end, notes, true);
  let length = itemLength;
  for (const size of facts.shape) length *= BigInt(size);
  if (length > BigInt(byteLength - end)) {
    notes.addProblem(`expected ${length} bytes of items, found ${byteLength - end}`);
    return undefined;
  }
  return end + Number(length);
}

/** Notes the pickle after a header; returns its end. */
function notePickle(
  source: ArraySource,
  begin: number,
  notes: ScanNotes,
  isKnown: boolean,
): number | undefined {
  const bytes = source.head();
  if (begin > bytes.length) return undefined;
  const { byteLength, entry } = source;
  const scanned = notes.walk({ bytes, byteLength, entry }, begin);
  // An unknown header may be followed by plain numbers.
  if (isKnown || isPickleAt(bytes, begin) || mayRun(scanned)) notes.addPickle(scanned, entry);
  return scanned.problem === undefined ? scanned.end : undefined;
}
