/** The hash of a file while it is written: of a long one on a separate thread. */

import { Worker } from 'node:worker_threads';
import type { ReadFile } from '../../platform/io/pool-calls.js';
import { mayStartThread } from '../../platform/io/threads.js';
import { beginHash, hashKind, hashStart } from './file-hash.js';

/** Below this length, starting a thread takes as long as the hash. */
const THREAD_BYTE_LENGTH = 64 * 2 ** 20;

/** The hash of a file from its start to what was added last. */
export interface GrowingHash {
  /** Adds the first bytes of the file, which an earlier try has left. Returns how many there are. */
  addStart(byteLength: number, signal: AbortSignal): Promise<number>;
  /** Adds the next bytes, which have just been written to the file. */
  add(bytes: Uint8Array): void;
  /** The hash, in hexadecimal digits. Call it once. */
  digest(): Promise<string>;
  /** Ends the thread. The descriptor is not used afterwards. */
  end(): Promise<void>;
}

/**
 * Begins the hash of a file that gets `byteLength` bytes; `expected` as for {@link beginHash}. A hash takes a second for
 * two gigabytes: on this thread nothing would be received meanwhile.
 */
export function beginGrowingHash(
  expected: string | null,
  byteLength: number,
  file: ReadFile,
): GrowingHash {
  return byteLength >= THREAD_BYTE_LENGTH && mayStartThread()
    ? new HashThread(expected, byteLength, file.fd)
    : hashHere(expected, byteLength, file);
}

function hashHere(expected: string | null, byteLength: number, file: ReadFile): GrowingHash {
  const hash = beginHash(expected, byteLength);
  return {
    addStart: async (length, signal) => await hashStart(hash, file, length, signal),
    add: (bytes) => void hash.update(bytes),
    digest: async () => hash.digest('hex'),
    end: async () => {},
  };
}

/**
 * The program of the thread. It reads the file again, from the page cache: memory that a thread may use and this one
 * too would have to be shared, and copied once more. Text, so that bundles need no second file.
 */
const PROGRAM = `
const { parentPort, workerData: { fd, algorithm, prefix } } = require('node:worker_threads');
const { readSync } = require('node:fs');
const hash = require('node:crypto').createHash(algorithm).update(prefix);
const block = new Uint8Array(2 ** 20);
let at = 0;
parentPort.on('message', ({ end, isLast }) => {
  while (at < end) {
    const count = readSync(fd, block, 0, Math.min(block.length, end - at), at);
    if (count === 0) break;
    hash.update(block.subarray(0, count));
    at += count;
  }
  if (isLast) parentPort.postMessage(hash.digest('hex'));
});
`;

class HashThread implements GrowingHash {
  readonly #worker: Worker;
  readonly #result: Promise<string>;
  #end = 0;

  constructor(expected: string | null, byteLength: number, fd: number) {
    const workerData = { fd, ...hashKind(expected, byteLength) };
    this.#worker = new Worker(PROGRAM, { eval: true, workerData });
    this.#result = new Promise((resolve, reject) => {
      this.#worker.on('message', resolve);
      this.#worker.on('error', reject);
      this.#worker.on('exit', () => reject(new Error('the thread that hashes has ended')));
    });
    // Awaited by `digest`, but it may fail earlier, or be ended without.
    this.#result.catch(() => {});
  }

  async addStart(byteLength: number): Promise<number> {
    this.#reach(byteLength);
    return byteLength;
  }

  add({ length }: Uint8Array): void {
    this.#reach(this.#end + length);
  }

  async digest(): Promise<string> {
    this.#worker.postMessage({ end: this.#end, isLast: true });
    return await this.#result;
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  #reach(end: number): void {
    this.#end = end;
    this.#worker.postMessage({ end, isLast: false });
  }
}
