/** A separate thread that reads open files itself: its messages, answers and errors. */

import { Worker } from 'node:worker_threads';
import { truncatedError } from './opened-file.js';
import type { ReadFile } from './pool-calls.js';
import { namingFile } from './system-errors.js';

/**
 * Bytes that the thread reads at once. They must stay in its core's cache until they are used: with pieces of 4 MiB,
 * read by another thread, SHA-256 takes 1.5 times as long.
 */
export const BLOCK_BYTE_LENGTH: number = 2 ** 18;

/** Shared by all threads; their programs define `handle`. A string, so that bundles need no second file. */
const PROGRAM = `
const { parentPort, workerData: memory } = require('node:worker_threads');
const { readSync } = require('node:fs');
function readOnce(fd, block, offset, length, position) {
  for (;;) {
    try {
      return readSync(fd, block, offset, length, position);
    } catch (error) {
      if (error.code !== 'EINTR') throw Object.assign(error, { fd });
    }
  }
}
function readBlock(fd, block, from, to) {
  for (let at = from; at < to; ) {
    const count = readOnce(fd, block, at - from, to - at, at);
    if (count === 0) throw Object.assign(new Error('truncated'), { fd, expected: to, found: at });
    at += count;
  }
  return block.subarray(0, to - from);
}
parentPort.on('message', (message) => {
  try {
    parentPort.postMessage({ result: handle(message) });
  } catch ({ message, code, errno, syscall, fd, expected, found }) {
    parentPort.postMessage({ message, facts: { code, errno, syscall }, fd, expected, found });
  }
});
`;

/** The result of a message, or the reason why there is none. */
interface Answer {
  readonly result?: unknown;
  readonly message: string;
  /** Of an error of the system. */
  readonly facts: object;
  /** The descriptor that was read. */
  readonly fd?: number;
  /** Positions in a file that has ended too early. */
  readonly expected?: number;
  readonly found: number;
}

/** A caller that waits for the thread. */
interface Waiting {
  readonly files: readonly ReadFile[];
  resolve(result: unknown): void;
  reject(error: unknown): void;
}

/** The thread. `end` ends it. */
export class FileThread {
  readonly #worker: Worker;
  // In the order of the messages: the thread answers in that.
  readonly #waiting: Waiting[] = [];
  /** Why the thread answers no more. */
  #failure: unknown;

  /**
   * @param program defines `handle`, which gets a message and returns its result
   * @param memory the thread's `memory`
   */
  constructor(program: string, memory?: Uint8Array<SharedArrayBuffer>) {
    this.#worker = new Worker(PROGRAM + program, { eval: true, workerData: memory });
    this.#worker.on('message', (answer: Answer) => this.#answer(answer));
    this.#worker.on('error', (error) => this.#fail(error));
    this.#worker.on('exit', () => this.#fail(new Error('the thread that reads files has ended')));
  }

  /**
   * Returns the thread's result. The descriptors of the files that it reads must stay open until then, or until `end`.
   *
   * @throws FileChangedError when a file ends earlier; errors of the system, with the file's path
   */
  ask(files: readonly ReadFile[], message: object): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== undefined) return reject(this.#failure);
      this.#waiting.push({ files, resolve, reject });
      this.#worker.postMessage(message);
    });
  }

  /** Ends the thread; it uses neither memory nor descriptors afterwards. */
  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  #answer({ result, message, facts, fd, expected, found }: Answer): void {
    const waiting = this.#waiting.shift();
    if (waiting === undefined) return;
    const path = waiting.files.find((file) => file.fd === fd)?.path;
    if (result !== undefined) waiting.resolve(result);
    else if (expected !== undefined) waiting.reject(truncatedError(path, expected, found));
    else waiting.reject(namingFile(Object.assign(new Error(message), facts), path));
  }

  #fail(error: unknown): void {
    this.#failure ??= error;
    for (const { reject } of this.#waiting.splice(0)) reject(error);
  }
}
