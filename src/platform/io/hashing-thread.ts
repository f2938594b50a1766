/** Hashes bytes on a separate thread, which reads open files itself or sees memory that it shares. */

import { BLOCK_BYTE_LENGTH, FileThread } from './file-thread.js';
import type { ReadFile } from './pool-calls.js';
import { MAC_ALGORITHM, MAC_NONCE } from './range-hashes.js';

/** The hashes that the thread knows; a keyed one is a GMAC. */
export type HashAlgorithm = 'sha256' | 'crc32' | 'keyed';

/** The parts of a piece that belong to one hash. */
export interface TaskParts {
  /** Identifies the hash, which may span many pieces. */
  readonly task: number;
  readonly algorithm: HashAlgorithm;
  /** Of a keyed hash: 16 bytes. */
  readonly key?: Uint8Array | undefined;
  /** For each part its first byte, the byte after its last one, and 1 if the hash ends there, else 0. */
  readonly parts: readonly number[];
}

/** The bytes [begin, end) of a file, and the hashes they belong to. */
export interface HashedPiece {
  readonly begin: number;
  readonly end: number;
  readonly tasks: readonly TaskParts[];
}

/** The digests that end in a piece, in hexadecimal digits, for each task. */
type PieceDigests = readonly (readonly string[])[];

/** The program of the thread, after that of every thread. */
const PROGRAM = `
const { createCipheriv, createHash } = require('node:crypto');
const { crc32 } = require('node:zlib');
const block = new Uint8Array(${BLOCK_BYTE_LENGTH});
const states = new Map();
const hashes = {
  sha256: {
    add: (hash = createHash('sha256'), bytes) => hash.update(bytes),
    digest: (hash = createHash('sha256')) => hash.digest('hex'),
  },
  crc32: {
    add: (checksum, bytes) => crc32(bytes, checksum),
    digest: (checksum = 0) => checksum.toString(16).padStart(8, '0'),
  },
  keyed: {
    add: (mac, bytes, key) =>
      (mac ?? createCipheriv('${MAC_ALGORITHM}', key, new Uint8Array(${MAC_NONCE.length}))).setAAD(bytes),
    digest: (mac) => (mac.final(), mac.getAuthTag().toString('hex')),
  },
};
function handle({ fd, offset, begin, end, tasks }) {
  const digests = tasks.map(() => []);
  const next = tasks.map(() => 0);
  let from = begin;
  do {
    const to = Math.min(from + block.length, end);
    const at = offset + from - begin;
    const bytes = fd === undefined ? memory.subarray(at, at + to - from) : readBlock(fd, block, from, to);
    for (const [i, { task, algorithm, key, parts }] of tasks.entries()) {
      const { add, digest } = hashes[algorithm];
      for (; next[i] < parts.length; next[i] += 3) {
        const [first, last, isLast] = parts.slice(next[i], next[i] + 3);
        const [a, b] = [Math.max(first, from), Math.min(last, to)];
        if (a < b) states.set(task, add(states.get(task), bytes.subarray(a - from, b - from), key));
        if (last > to) break;
        if (isLast === 0) continue;
        digests[i].push(digest(states.get(task)));
        states.delete(task);
      }
    }
    from = to;
  } while (from < end);
  return digests;
}
`;

/** The thread and its hashes. `end` ends it. */
export class HashingThread {
  readonly #thread: FileThread;

  /** The thread reads the memory only while it hashes a piece of it. */
  constructor(memory?: Uint8Array<SharedArrayBuffer>) {
    this.#thread = new FileThread(PROGRAM, memory);
  }

  /**
   * Has the thread read and hash a piece of a file.
   *
   * @throws As `FileThread.ask`
   */
  async hashFile(file: ReadFile, piece: HashedPiece): Promise<PieceDigests> {
    return (await this.#thread.ask([file], { ...piece, fd: file.fd })) as PieceDigests;
  }

  /** The same of a piece that is in the memory from `offset` on. It may be overwritten once this resolves. */
  async hashMemory(offset: number, piece: HashedPiece): Promise<PieceDigests> {
    return (await this.#thread.ask([], { ...piece, offset })) as PieceDigests;
  }

  /** Ends the thread; it uses neither memory nor descriptors afterwards. */
  async end(): Promise<void> {
    await this.#thread.end();
  }
}
