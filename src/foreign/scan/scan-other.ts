/** Scans files without pickles: formats without code, text, and unknown formats. */

import { isUtf8 } from 'node:buffer';
import { FormatError } from '../../errors/errors.js';
import { describeContainer, isTarArchive } from '../../header/foreign-formats.js';
import { parseHeader, readHeaderLength } from '../../header/header.js';
import { fileKindOf } from '../file-kind.js';
import type { ByteReader } from '../zip/archive.js';
import { END_BYTE_LENGTH } from '../zip/end-record.js';
import type { ScanNotes } from './scan-notes.js';

/** A GGUF file's version follows its mark, in the byte order of the file. */
const GGUF_MARK = 'GGUF';
const HIGHEST_GGUF_VERSION = 3;

/** A zip reader searches this many bytes for the end record, whose comment has at most 65 535 bytes. */
const END_MARK = 0x06054b50;
const DIRECTORY_MARK = 0x02014b50;
const WIDE_LOCATOR_MARK = 0x07064b50;
const WIDE_LOCATOR_BYTE_LENGTH = 20;
const TAIL_BYTE_LENGTH = END_BYTE_LENGTH + 0xffff;

/** Scans a file that is not a pickle. */
export function scanOther(
  start: Uint8Array,
  head: Uint8Array,
  file: ByteReader,
  notes: ScanNotes,
): void {
  if (fileKindOf(start) === 'safetensors') {
    scanSafetensors(start, file, notes);
    return;
  }
  const container = describeContainer(start);
  if (container !== undefined) {
    if (!isTarArchive(start)) notes.add('unread-archive', `found ${container}`, 0);
  } else if (start.every((byte) => byte === 0)) {
    notes.addProblem(start.length === 0 ? 'found an empty file' : 'found a run of zeros');
  } else if (isText(head)) {
    if (file.byteLength > head.length) notes.add('limit', 'found a longer text', head.length);
    else if (hasKerasCode(head)) notes.add('code', KERAS_CODE, 0);
  } else if (!isGguf(start)) {
    notes.add('unread-bytes', 'found no pickle, and no format that is known', 0);
  }
}

function scanSafetensors(start: Uint8Array, file: ByteReader, notes: ScanNotes): void {
  try {
    const length = readHeaderLength(start, file.byteLength);
    parseHeader(file.read(8, 8 + length), file.byteLength);
  } catch (error) {
    if (!(error instanceof FormatError)) throw error;
    notes.addProblem(error.message);
  }
}

function isGguf(start: Uint8Array): boolean {
  if (String.fromCharCode(...start.subarray(0, 4)) !== GGUF_MARK || start.length < 8) return false;
  const view = new DataView(start.buffer, start.byteOffset, start.byteLength);
  const version = Math.min(view.getUint32(4, true), view.getUint32(4, false));
  return version >= 1 && version <= HIGHEST_GGUF_VERSION;
}

/** Whether bytes are UTF-8 without control characters, except whitespace. */
export function isText(bytes: Uint8Array): boolean {
  for (const byte of bytes) {
    const isLayout = byte === 0x09 || byte === 0x0a || byte === 0x0c || byte === 0x0d;
    if ((byte < 0x20 && !isLayout) || byte === 0x7f) return false;
  }
  return isUtf8(bytes);
}

/** Finding for a configuration that makes Keras run code. */
export const KERAS_CODE: string =
  'a layer of Keras that is Python code, or a function that Keras imports';

/**
 * Whether a text is a Keras configuration with a lambda, or with a class or function of another package, which Keras
 * would import.
 */
export function hasKerasCode(bytes: Uint8Array): boolean {
  let left: unknown[];
  try {
    left = [JSON.parse(Buffer.from(bytes).toString('utf8'))];
  } catch {
    return false;
  }
  for (let value = left.pop(); value !== undefined; value = left.pop()) {
    if (typeof value !== 'object' || value === null) continue;
    const { class_name: type, module } = value as { class_name?: unknown; module?: unknown };
    if (typeof type === 'string') {
      if (/lambda/i.test(type) || type === 'function') return true;
      const isForeign = typeof module === 'string' && !/^(keras|builtins)(\.|$)/.test(module);
      if (isForeign) return true;
    }
    for (const item of Object.values(value)) left.push(item ?? 0);
  }
  return false;
}

/** End of a zip archive that another reader may find at the end of the file; undefined without one. */
export function archiveAtEnd(file: ByteReader): number | undefined {
  const tailBegin = Math.max(0, file.byteLength - TAIL_BYTE_LENGTH);
  const tail = file.read(tailBegin, file.byteLength);
  const view = new DataView(tail.buffer, tail.byteOffset, tail.byteLength);
  for (let at = tail.length - END_BYTE_LENGTH; at >= 0; at--) {
    if (view.getUint32(at, true) !== END_MARK) continue;
    const position = tailBegin + at;
    const locator = at - WIDE_LOCATOR_BYTE_LENGTH;
    if (locator >= 0 && view.getUint32(locator, true) === WIDE_LOCATOR_MARK) return position;
    const begins = [position - view.getUint32(at + 12, true), view.getUint32(at + 16, true)];
    if (begins.some((begin) => isDirectory(file, begin))) return position;
  }
  return undefined;
}

function isDirectory(file: ByteReader, begin: number): boolean {
  if (begin < 0 || begin + 4 > file.byteLength) return false;
  return new DataView(file.read(begin, begin + 4).buffer).getUint32(0, true) === DIRECTORY_MARK;
}
