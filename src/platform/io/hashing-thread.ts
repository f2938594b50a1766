/** Hashes bytes on a separate thread, which reads open files itself or sees memory that it shares. */

import { Worker } from 'node:worker_threads';
import { truncatedError } from './opened-file.js';
import type { ReadFile } from './pool-calls.js';
import { namingFile } from './system-errors.js';

/** The hashes that the thread knows. */
export type HashAlgorithm = 'sha256' | 'crc32';

/** The parts of a piece that belong to one hash. */
export interface TaskParts {
  /** Identifies the hash, which may span many pieces. */
  readonly task: number;
  readonly algorithm: HashAlgorithm;
  /** For each part its first byte, the byte after its last one, and 1 if the hash ends there, else 0. */
  readonly parts: readonly number[];
}

/** The bytes [begin, end) of a file, and the hashes they belong to. */
export interface HashedPiece {
  readonly begin: number;
  readonly end: number;
  readonly tasks: readonly TaskParts[];
}

/**
 * Bytes that the thread reads at once. They must stay in its core's cache until they are hashed: with pieces of
 * 4 MiB, read by another thread, SHA-256 takes 1.5 times as long.
 */
const BLOCK_BYTE_LENGTH = 2 ** 18;

/** The program of the thread. Text, so that bundles need no second file. */
const PROGRAM = `
const { parentPort, workerData: memory } = require('node:worker_threads');
const { readSync } = require('node:fs');
const { createHash } = require('node:crypto');
const { crc32 } = require('node:zlib');
const block = new Uint8Array(${BLOCK_BYTE_LENGTH});
const states = new Map();
const hashes = {
  sha256: {
    add: (hash = createHash('sha256'), bytes) => hash.update(bytes),
    digest: (hash = createHash('sha256')) => hash.digest('hex'),
  },
  crc32: {
    add: (sum, bytes) => crc32(bytes, sum),
    digest: (sum = 0) => sum.toString(16).padStart(8, '0'),
  },
};
function readOnce(fd, offset, length, position) {
  for (;;) {
    try {
      return readSync(fd, block, offset, length, position);
    } catch (error) {
      if (error.code !== 'EINTR') throw error;
    }
  }
}
function readBlock(fd, from, to) {
  for (let at = from; at < to; ) {
    const count = readOnce(fd, at - from, to - at, at);
    if (count === 0) throw Object.assign(new Error('truncated'), { expected: to, found: at });
    at += count;
  }
  return block.subarray(0, to - from);
}
function hashPiece({ fd, offset, begin, end, tasks }) {
  const digests = tasks.map(() => []);
  const next = tasks.map(() => 0);
  let from = begin;
  do {
    const to = Math.min(from + block.length, end);
    const at = offset + from - begin;
    const bytes = fd === undefined ? memory.subarray(at, at + to - from) : readBlock(fd, from, to);
    for (const [i, { task, algorithm, parts }] of tasks.entries()) {
      const { add, digest } = hashes[algorithm];
      for (; next[i] < parts.length; next[i] += 3) {
        const [first, last, isLast] = parts.slice(next[i], next[i] + 3);
        const [a, b] = [Math.max(first, from), Math.min(last, to)];
        if (a < b) states.set(task, add(states.get(task), bytes.subarray(a - from, b - from)));
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
parentPort.on('message', (piece) => {
  try {
    parentPort.postMessage({ digests: hashPiece(piece) });
  } catch ({ message, code, errno, syscall, expected, found }) {
    parentPort.postMessage({ message, facts: { code, errno, syscall }, expected, found });
  }
});
`;

/** The digests of a piece, or the reason why there are none. */
interface Answer {
  readonly digests?: readonly (readonly string[])[];
  readonly message: string;
  /** Of an error of the system. */
  readonly facts: object;
  /** Positions in a file that has ended too early. */
  readonly expected?: number;
  readonly found: number;
}

/** A caller that waits for the thread. */
interface Waiting {
  readonly path: string | undefined;
  resolve(digests: readonly (readonly string[])[]): void;
  reject(error: unknown): void;
}

/** The thread and its hashes. `end` ends it. */
export class HashingThread {
  readonly #worker: Worker;
  // In the order of the messages: the thread answers in that.
  readonly #waiting: Waiting[] = [];

  /** The thread reads the memory only while it hashes a piece of it. */
  constructor(memory?: Uint8Array<SharedArrayBuffer>) {
    this.#worker = new Worker(PROGRAM, { eval: true, workerData: memory });
    this.#worker.on('message', (answer: Answer) => this.#answer(answer));
    this.#worker.on('error', (error) => this.#fail(error));
    this.#worker.on('exit', () => this.#fail(new Error('the thread that hashes has ended')));
  }

  /**
   * Has the thread read and hash a piece of a file, whose descriptor must stay open until `end`. Resolves with the
   * digests of the hashes that end in it, in hexadecimal digits, for each task.
   *
   * @throws FileChangedError when the file ends earlier; errors of the system, with the file's path
   */
  hashFile({ fd, path }: ReadFile, piece: HashedPiece): Promise<readonly (readonly string[])[]> {
    return this.#ask(path, { ...piece, fd });
  }

  /** The same of a piece that is in the memory from `offset` on. It may be overwritten once this resolves. */
  hashMemory(offset: number, piece: HashedPiece): Promise<readonly (readonly string[])[]> {
    return this.#ask(undefined, { ...piece, offset });
  }

  /** Ends the thread; it uses neither memory nor descriptors afterwards. */
  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  #ask(path: string | undefined, message: object): Promise<readonly (readonly string[])[]> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ path, resolve, reject });
      this.#worker.postMessage(message);
    });
  }

  #answer({ digests, message, facts, expected, found }: Answer): void {
    const waiting = this.#waiting.shift();
    if (waiting === undefined) return;
    const { path } = waiting;
    if (digests !== undefined) waiting.resolve(digests);
    else if (expected !== undefined) waiting.reject(truncatedError(path, expected, found));
    else waiting.reject(namingFile(Object.assign(new Error(message), facts), path));
  }

  #fail(error: unknown): void {
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }
}
