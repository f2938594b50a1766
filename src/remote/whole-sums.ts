/** Compares whole tensors that were fetched with the sums in the metadata of their file. */

import type { Header } from '../header/header.js';
import { SUM_DIGITS, SUMS_KEY, sumMismatch, sumsProblem } from '../header/tensor-sums.js';
import { limit, Slots } from '../tensor/pieces.js';
import type { Tensor } from '../tensor/tensor.js';

/** Computes the SHA-256 of bytes, in hexadecimal digits; undefined where this runtime cannot. */
export type Digest = (bytes: Uint8Array<ArrayBuffer>) => Promise<string | undefined>;

/** Hashes under way at a time: each may need as much memory as its tensor. */
const HASHED_AT_ONCE = 2;

/**
 * Returns the sum that a file claims for a tensor; undefined for a file without sums.
 *
 * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH` for text that cannot be the sums of the file's tensors
 */
export function claimedSum(
  { metadata, size }: Header,
  entry: number,
  context: { readonly path: string; readonly tensor: string },
): string | undefined {
  const text = metadata?.get(SUMS_KEY);
  if (text === undefined) return undefined;
  const problem = sumsProblem(text, size);
  if (problem !== undefined) throw sumMismatch(`${text.length} characters`, problem, context);
  return text.slice(entry * SUM_DIGITS, (entry + 1) * SUM_DIGITS);
}

/** A tensor that was fetched, and the sum that its file claims for it. */
export interface ClaimedTensor {
  readonly tensor: Tensor;
  readonly path: string;
  readonly sum: string;
}

/**
 * Hashes the tensors and compares their sums.
 *
 * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH` for the first that differs; the signal's reason
 */
export async function checkSums(
  claimed: Iterable<ClaimedTensor>,
  digest: Digest,
  signal: AbortSignal,
): Promise<void> {
  await limit(claimed, new Slots(HASHED_AT_ONCE), async ({ tensor, path, sum }) => {
    signal.throwIfAborted();
    const found = await digest(tensor.bytes as Uint8Array<ArrayBuffer>);
    if (found === undefined || found === sum) return;
    throw sumMismatch(sum, found, { path, tensor: tensor.name });
  });
}

/** The digest of the Web Cryptography API, off this thread. Pages that came by plain HTTP have none. */
export const webDigest: Digest = async (bytes) => {
  const subtle = globalThis.crypto?.subtle as typeof globalThis.crypto.subtle | undefined;
  if (subtle === undefined) return undefined;
  const digest = new Uint8Array(await subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
};
