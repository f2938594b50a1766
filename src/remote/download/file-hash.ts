/** The hashes by which the Hub names the contents of files. */

import { createHash, type Hash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { type ReadFile, readAsync } from '../../platform/io/pool-calls.js';

/** Read and hashed at a time: 2 to 8 ms of work, between which the event loop turns. */
const BLOCK_BYTE_LENGTH = 2 ** 22;

/**
 * The kind of hash that `expected` is, over a file of that length: the Hub identifies large files by SHA-256 and others
 * as git does. SHA-256 without `expected`.
 */
export function hashKind(
  expected: string | null,
  byteLength: number,
): { readonly algorithm: string; readonly prefix: string } {
  const isGit = expected?.length === 40;
  return isGit
    ? { algorithm: 'sha1', prefix: `blob ${byteLength}\0` }
    : { algorithm: 'sha256', prefix: '' };
}

/** Begins a hash of that kind. */
export function beginHash(expected: string | null, byteLength: number): Hash {
  const { algorithm, prefix } = hashKind(expected, byteLength);
  return createHash(algorithm).update(prefix);
}

/**
 * Adds the first bytes of a file. Returns their count, which is lower for a shorter file. One hash, of any start:
 * `file/verification/hash-file` computes all hashes that models are known by, of whole files, in two threads.
 *
 * @throws `signal.reason`; errors of the system
 */
export async function hashStart(
  hash: Hash,
  file: ReadFile,
  byteLength: number,
  signal: AbortSignal | undefined,
): Promise<number> {
  const block = new Uint8Array(Math.min(byteLength, BLOCK_BYTE_LENGTH));
  let done = 0;
  while (done < byteLength) {
    signal?.throwIfAborted();
    const length = Math.min(byteLength - done, block.length);
    const { bytesRead } = await readAsync(file, block, 0, length, done);
    if (bytesRead === 0) break;
    hash.update(block.subarray(0, bytesRead));
    done += bytesRead;
  }
  return done;
}

/**
 * Returns the hash of a file as git identifies it, in hexadecimal digits. `expected` is such a hash.
 *
 * @throws `signal.reason`; errors of the system
 */
export async function hashGitBlob(
  path: string,
  expected: string,
  byteLength: number,
  signal: AbortSignal | undefined,
): Promise<string> {
  const handle = await open(path);
  try {
    const hash = beginHash(expected, byteLength);
    await hashStart(hash, { fd: handle.fd, path }, byteLength, signal);
    return hash.digest('hex');
  } finally {
    await handle.close();
  }
}
