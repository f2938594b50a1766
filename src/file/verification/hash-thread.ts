/** SHA-256 on another thread, of memory that both threads see. */

import { Worker } from 'node:worker_threads';
import { cut } from '../../work/byte-ranges.js';

/** The program of the thread. Text, so that bundles need no second file. */
const PROGRAM = `
const { parentPort, workerData } = require('node:worker_threads');
const { createHash } = require('node:crypto');
let hash = createHash('sha256');
parentPort.on('message', (part) => {
  if (part === null) {
    parentPort.postMessage(hash.digest('hex'));
    hash = createHash('sha256');
    return;
  }
  hash.update(workerData.subarray(part.begin, part.end));
  parentPort.postMessage('');
});
`;

/** One who waits for the thread. */
interface Waiting {
  resolve(answer: string): void;
  reject(error: unknown): void;
}

/** The hash and its thread, which `end` ends. */
export class HashThread {
  readonly #worker: Worker;
  // In the order of the messages: the thread answers in that.
  readonly #waiting: Waiting[] = [];

  /** The thread reads the memory when it is told to. */
  constructor(memory: Uint8Array<SharedArrayBuffer>) {
    this.#worker = new Worker(PROGRAM, { eval: true, workerData: memory });
    this.#worker.on('message', (answer: string) => this.#waiting.shift()?.resolve(answer));
    this.#worker.on('error', (error) => this.#fail(error));
    this.#worker.on('exit', () => this.#fail(new Error('the thread that hashes has ended')));
  }

  /** Adds the bytes [begin, end) of the memory. Resolves when they may be overwritten. */
  async update(begin: number, end: number): Promise<void> {
    await this.#ask({ begin, end });
  }

  /** Returns the hash of all that was added since the last call, in hexadecimal digits. */
  digest(): Promise<string> {
    return this.#ask(null);
  }

  /** Ends the thread; it does not touch the memory afterwards. */
  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  #ask(message: { begin: number; end: number } | null): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ resolve, reject });
      this.#worker.postMessage(message);
    });
  }

  #fail(error: unknown): void {
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }
}

/** Bytes that are copied for the thread at once, while it hashes those before them. */
const COPIED_PIECE_BYTE_LENGTH = 4 * 2 ** 20;

/** The SHA-256 of bytes in memory, in hexadecimal digits, computed by a separate thread from copies of pieces. */
export async function hashOnThread(bytes: Uint8Array): Promise<string> {
  const memory = new Uint8Array(new SharedArrayBuffer(2 * COPIED_PIECE_BYTE_LENGTH));
  const thread = new HashThread(memory);
  try {
    let before: Promise<void> = Promise.resolve();
    let place = 0;
    for (const { begin, end } of cut(0, bytes.length, COPIED_PIECE_BYTE_LENGTH)) {
      memory.set(bytes.subarray(begin, end), place);
      const added = thread.update(place, place + end - begin);
      // It may fail while the piece before is awaited.
      added.catch(() => {});
      // The other half is free when the piece before was added.
      await before;
      before = added;
      place = COPIED_PIECE_BYTE_LENGTH - place;
    }
    await before;
    return await thread.digest();
  } finally {
    await thread.end();
  }
}
