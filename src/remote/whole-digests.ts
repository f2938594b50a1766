/** Compares whole tensors that were fetched with the digests in the metadata of their file. */

import { digestMismatch } from '../header/tensor-digests.js';
import type { Tensor } from '../tensor/tensor.js';
import { limit, Slots } from '../work/slots.js';

/** Computes the SHA-256 of bytes, in hexadecimal digits; undefined where this runtime cannot. */
export type Digest = (bytes: Uint8Array<ArrayBuffer>) => Promise<string | undefined>;

/** Hashes under way at a time: each may need as much memory as its tensor. */
const HASHED_AT_ONCE = 2;

/** A tensor that was fetched, and the digest that its file declares for it. */
export interface DeclaredTensor {
  readonly tensor: Tensor;
  readonly path: string;
  readonly hex: string;
}

/**
 * Hashes the tensors and compares their digests.
 *
 * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH` for the first that differs; the signal's reason
 */
export async function compareDigests(
  declared: Iterable<DeclaredTensor>,
  digest: Digest,
  signal: AbortSignal,
): Promise<void> {
  await limit(declared, new Slots(HASHED_AT_ONCE), async ({ tensor, path, hex }) => {
    signal.throwIfAborted();
    const found = await digest(tensor.bytes as Uint8Array<ArrayBuffer>);
    if (found === undefined || found === hex) return;
    throw digestMismatch(hex, found, { path, tensor: tensor.name });
  });
}

/** The digest of the Web Cryptography API, off this thread. Pages that came by plain HTTP have none. */
export const webDigest: Digest = async (bytes) => {
  const subtle = globalThis.crypto?.subtle as typeof globalThis.crypto.subtle | undefined;
  if (subtle === undefined) return undefined;
  const digest = new Uint8Array(await subtle.digest('SHA-256', bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('');
};
