/** Tells a file's kind by its first bytes. Names do not count: scanners that trusted them were deceived. */

import type { Advice } from '../errors/advice.js';
import { type ErrorContext, FormatError } from '../errors/errors.js';
import type { FoundFormat } from '../errors/found-format.js';
import { foreignFormatOf } from '../header/foreign-formats.js';

/** The kinds of files that are read. */
type FileKind = 'zip' | 'pickle' | 'npy' | 'gguf' | 'safetensors';

const PROTO_OPCODE = 0x80;
const FIRST_PROTOCOL = 2;
const LAST_PROTOCOL = 5;

/**
 * Whether a file begins as a safetensors file: a length below 2^32, then JSON. An archive that begins so would have a
 * nonexistent compression method; torch reads such an archive all the same, since it trusts the directory.
 */
export function isSafetensorsStart(head: Uint8Array): boolean {
  return /^.{4}\0{4}\{[\s"}]/s.test(String.fromCharCode(...head.subarray(0, 10)));
}

/**
 * Returns the kind by the first bytes, as torch decides; undefined for other kinds. A header's length may look like
 * the start of a pickle (640 is 0x0280), but no pickle goes on with zeros.
 */
export function fileKindOf(head: Uint8Array): FileKind | undefined {
  const text = String.fromCharCode(...head.subarray(0, 9));
  if (text.startsWith('PK\x03\x04')) return 'zip';
  if (text.startsWith('\x93NUMPY')) return 'npy';
  if (text.startsWith('GGUF')) return 'gguf';
  if (isSafetensorsStart(head)) return 'safetensors';
  const [first, protocol = 0] = head;
  const isPickle =
    first === PROTO_OPCODE && protocol >= FIRST_PROTOCOL && protocol <= LAST_PROTOCOL;
  return isPickle ? 'pickle' : undefined;
}

/** The formats of files whose kind may be read. */
const READ_FORMATS: readonly (FoundFormat | undefined)[] = [
  undefined,
  'zip',
  'pickle',
  'numpy',
  'tar',
];

/** Whether a zip archive or a pickle is of a format that is not read, by its content or its name. */
export function isUnreadKind(head: Uint8Array, path: string | undefined): boolean {
  const kind = fileKindOf(head);
  if (kind !== 'zip' && kind !== 'pickle') return false;
  return !READ_FORMATS.includes(foreignFormatOf(head, path)?.format);
}

const SAFE_OPEN: Advice = { option: 'safeOpen', text: 'which safeOpen opens' };

/** Returns the error for a file of another kind than `expected`, which completes "expected …". */
export function otherKind(head: Uint8Array, expected: string, context: ErrorContext): FormatError {
  const kind = fileKindOf(head);
  const found =
    kind === 'safetensors'
      ? ({ format: kind, description: `a safetensors file, ${SAFE_OPEN.text}` } as const)
      : foreignFormatOf(head, context.path);
  const description =
    found?.description ?? (head.length === 0 ? 'an empty file' : 'something else');
  return new FormatError(
    'SAFETENSORS_FOREIGN_FORMAT',
    `expected ${expected}, found ${description}`,
    {
      ...context,
      foundFormat: found?.format,
      advice: kind === 'safetensors' ? [SAFE_OPEN] : undefined,
    },
  );
}
