/** SHA-256 digests of tensors in the metadata of their file: where they stand, and what their text must be. */

import { type ErrorContext, FormatError } from '../errors/errors.js';

/**
 * The key. Its value has 64 hexadecimal digits in lower case for every tensor of the file, joined without separators,
 * in the order of the tensors' bytes. Tensors without bytes have the same digest, so their order does not matter.
 */
export const DIGESTS_KEY = 'safetensors-mmap.sha256';

/** ModelSpec's hash of the bytes after the header, which `0x` precedes. */
export const MODELSPEC_HASH = 'modelspec.hash_sha256';
/** The same bytes, by the scripts of kohya. */
export const MODEL_HASH = 'sshs_model_hash';
/** A part of these bytes. */
export const LEGACY_HASH = 'sshs_legacy_hash';

/** Characters of one digest. */
export const DIGEST_DIGITS = 64;

const DIGITS = /^[\da-f]*$/;

/** Room for the digests of so many tensors, as text of the right length. */
export function reservedDigests(tensorCount: number): string {
  return '0'.repeat(DIGEST_DIGITS * tensorCount);
}

/** A tensor's bytes [begin, end) in its file. */
interface SummedRange {
  readonly name: string;
  readonly begin: number;
  readonly end: number;
}

/** Where the digests of a file go, and what they are of. */
export interface DigestsPlace {
  /** Position in the file of the text of all digests. */
  readonly position: number;
  /** All tensors in the order of their bytes. */
  readonly ranges: readonly SummedRange[];
}

/**
 * Finds the place of the digests in a file that is laid out with room for them.
 *
 * @param start the first bytes of the file, up to the data
 * @param tensors in the order of their bytes, which begin there without gaps
 */
export function digestsPlace(
  start: Uint8Array,
  tensors: Iterable<{ readonly name: string; readonly byteLength: number }>,
): DigestsPlace {
  let end = start.byteLength;
  const ranges = Array.from(tensors, ({ name, byteLength }): SummedRange => {
    const begin = end;
    end += byteLength;
    return { name, begin, end };
  });
  return { position: digestsPosition(start), ranges };
}

/** Position of the digests in the first bytes of a file, which `layOut` made with room for them. */
export function digestsPosition(start: Uint8Array): number {
  // Unescaped quotes stand around it, so no value and no name can have this text.
  const before = new TextEncoder().encode(`${JSON.stringify(DIGESTS_KEY)}:"`);
  let at = start.indexOf(before[0] as number);
  while (!before.every((byte, i) => start[at + i] === byte)) {
    at = start.indexOf(before[0] as number, at + 1);
  }
  return at + before.length;
}

/** Metadata without digests: those of the tensors that it came with need not fit others. */
export function* withoutDigests(
  pairs: Iterable<readonly [string, string]>,
): Generator<readonly [string, string], void, void> {
  for (const pair of pairs) if (pair[0] !== DIGESTS_KEY) yield pair;
}

/**
 * The error for bytes that have another digest than the metadata of their file says, or for text that is no digests.
 */
export function digestMismatch(
  declared: string,
  found: string,
  context: ErrorContext,
): FormatError {
  const message = `${DIGESTS_KEY} declares ${declared}, found ${found}`;
  return new FormatError('SAFETENSORS_CHECKSUM_MISMATCH', message, context);
}

/**
 * What is wrong with the text of digests, to follow its key; undefined for digests of so many tensors. With `digits`,
 * only these of its digits are looked at.
 */
export function digestsProblem(
  text: string,
  tensorCount: number,
  digits: string = text,
): string | undefined {
  const expected = `expected ${DIGEST_DIGITS} hexadecimal digits for each of ${tensorCount} tensors`;
  if (text.length !== DIGEST_DIGITS * tensorCount)
    return `${expected}, found ${text.length} characters`;
  return DIGITS.test(digits) ? undefined : `${expected}, found other characters`;
}

/** The parts of a header that digests need. */
interface SummedHeader {
  readonly metadata: ReadonlyMap<string, string> | null;
  readonly size: number;
}

/**
 * Returns the digest that a file declares for a tensor; undefined for a file without digests. `entry` is its
 * place in the order of the tensors' bytes. Looks at no other digest: files have a hundred thousand.
 *
 * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH` for a text of the wrong length, and for other characters than
 *   digits in this digest
 */
export function digestOf(
  { metadata, size }: SummedHeader,
  entry: number,
  context: ErrorContext,
): string | undefined {
  const text = metadata?.get(DIGESTS_KEY);
  if (text === undefined) return undefined;
  const hex = text.slice(entry * DIGEST_DIGITS, (entry + 1) * DIGEST_DIGITS);
  const problem = digestsProblem(text, size, hex);
  if (problem !== undefined) throw digestMismatch(`${text.length} characters`, problem, context);
  return hex;
}
