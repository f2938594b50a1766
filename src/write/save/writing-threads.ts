/** Threads that copy and hash while a long file is written. */

export { CheckedCopies } from './checked-copies.js';
export { sourceDigests } from './source-digests.js';
export { WrittenDigests } from './written-digests.js';
