/** The SHA-256 of bytes in memory, in Node. */

import { createHash } from 'node:crypto';
import { mayStartThread } from '../../platform/io/threads.js';
import { type Digest, webDigest } from '../whole-digests.js';

/** Up to this length a hash takes less than a millisecond, and calls of the thread pool cost more. */
const SHORT_BYTE_LENGTH = 2 ** 20;

/** The thread pool hashes a copy; above this length a separate thread takes pieces instead. */
const COPIED_BYTE_LENGTH = 64 * 2 ** 20;

/** Long bytes are hashed off this thread, except where threads are forbidden. */
export const nodeDigest: Digest = async (bytes) => {
  if (bytes.length > COPIED_BYTE_LENGTH && mayStartThread()) {
    // Loaded when it is wanted: programs that only read remote files do without it.
    const { hashOnThread } = await import('../../file/verification/hash-thread.js');
    return await hashOnThread(bytes);
  }
  const isShort = bytes.length <= SHORT_BYTE_LENGTH || bytes.length > COPIED_BYTE_LENGTH;
  return isShort ? createHash('sha256').update(bytes).digest('hex') : await webDigest(bytes);
};
