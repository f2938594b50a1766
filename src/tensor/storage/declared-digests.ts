/**
 * The digests that files declare for their tensors, by the storage of a file: whoever copies a tensor compares them.
 */

import type { ErrorContext } from '../../errors/errors.js';
import type { Storage } from './storage.js';

/** The SHA-256 of a tensor's bytes, as its file declares it. */
export interface DeclaredDigest {
  /** In hexadecimal digits. */
  readonly hex: string;
  /** The file and the tensor, for errors. */
  readonly context: ErrorContext;
  /**
   * Position of the bytes in the file, if the caller was given writable memory with them: other bytes than the file has
   * are the caller's.
   */
  readonly writableFrom?: number;
}

/**
 * Returns the digest of the tensor that has exactly these bytes of the storage; undefined for other bytes.
 *
 * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH` for malformed digests
 */
type FindDigest = (tensor: string, begin: number, end: number) => DeclaredDigest | undefined;

const finders = new WeakMap<Storage, FindDigest>();

/** Registers the digests of a file. */
export function declareDigests(storage: Storage, find: FindDigest): void {
  finders.set(storage, find);
}

/** Returns the digest of a tensor; throws as {@link FindDigest}. */
export function declaredDigest(
  storage: Storage,
  tensor: string,
  begin: number,
  end: number,
): DeclaredDigest | undefined {
  return finders.get(storage)?.(tensor, begin, end);
}
