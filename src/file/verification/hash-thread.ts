/** A SHA-256 that grows on a thread of its own, from memory that both threads see. */

import { Worker } from 'node:worker_threads';

/** The program of the thread. Text, so that bundles need no second file. */
const PROGRAM = `
const { parentPort, workerData } = require('node:worker_threads');
const hash = require('node:crypto').createHash('sha256');
parentPort.on('message', (part) => {
  if (part === null) return parentPort.postMessage(hash.digest('hex'));
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

  /** Returns the hash of all that was added, in hexadecimal digits. Call it once. */
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
