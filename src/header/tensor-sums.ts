/** SHA-256 sums of tensors in the metadata of their file: where they stand, and how one is read. */

import { FormatError } from '../errors/errors.js';

/**
 * The key. Its value has 64 hexadecimal digits in lower case for every tensor of the file, joined without separators,
 * in the order of the tensors' bytes. Tensors without bytes have the same sum, so their order does not matter.
 */
export const SUMS_KEY = 'safetensors-mmap.sha256';

/** Characters of one sum. */
export const SUM_DIGITS = 64;

const DIGITS = /^[\da-f]*$/;

type Metadata = ReadonlyMap<string, string> | null;

/** Room for the sums of so many tensors, as text of the right length. */
export function roomForSums(tensorCount: number): string {
  return '0'.repeat(SUM_DIGITS * tensorCount);
}

/** Position of the sums in the first bytes of a file, which `layOut` made with room for them. */
export function sumsPosition(start: Uint8Array): number {
  // Unescaped quotes stand around it, so no value and no name can have this text.
  const before = new TextEncoder().encode(`${JSON.stringify(SUMS_KEY)}:"`);
  let at = start.indexOf(before[0] as number);
  while (!before.every((byte, i) => start[at + i] === byte)) {
    at = start.indexOf(before[0] as number, at + 1);
  }
  return at + before.length;
}

/** Metadata without sums: those of the tensors that it came with need not fit others. */
export function* withoutSums(
  pairs: Iterable<readonly [string, string]>,
): Generator<readonly [string, string], void, void> {
  for (const pair of pairs) if (pair[0] !== SUMS_KEY) yield pair;
}

/** What is wrong with the text of sums, to follow its key; undefined for sums of so many tensors. */
export function sumsProblem(text: string, tensorCount: number): string | undefined {
  const expected = `expected ${SUM_DIGITS} hexadecimal digits for each of ${tensorCount} tensors`;
  if (text.length !== SUM_DIGITS * tensorCount)
    return `${expected}, found ${text.length} characters`;
  return DIGITS.test(text) ? undefined : `${expected}, found other characters`;
}

/** The sums of one file. */
export class TensorSums {
  readonly #digits: string;
  readonly #path: string | undefined;

  private constructor(digits: string, path: string | undefined) {
    this.#digits = digits;
    this.#path = path;
  }

  /**
   * Returns the sums in a file's metadata; null without sums.
   *
   * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH` for text that is not the sums of so many tensors
   */
  static read(
    { metadata, size }: { readonly metadata: Metadata; readonly size: number },
    path: string | undefined,
  ): TensorSums | null {
    const text = metadata?.get(SUMS_KEY);
    if (text === undefined) return null;
    const problem = sumsProblem(text, size);
    if (problem === undefined) return new TensorSums(text, path);
    throw new FormatError('SAFETENSORS_CHECKSUM_MISMATCH', `metadata "${SUMS_KEY}": ${problem}`, {
      path,
    });
  }

  /**
   * Compares the sum of a tensor, which is at this place in the order of bytes.
   *
   * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH`, with file and tensor
   */
  require(entry: number, found: string, tensor: string): void {
    const expected = this.#digits.slice(SUM_DIGITS * entry, SUM_DIGITS * (entry + 1));
    if (found === expected) return;
    const message = `expected bytes with the SHA-256 ${expected} of the metadata, found ${found}`;
    throw new FormatError('SAFETENSORS_CHECKSUM_MISMATCH', message, { path: this.#path, tensor });
  }
}
