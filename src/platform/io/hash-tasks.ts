/** Hashes of ranges of a file, computed by a separate thread from the file's pieces. */

import type { ByteRange } from '../../work/byte-ranges.js';
import { type HashAlgorithm, HashingThread, type TaskParts } from './hashing-thread.js';
import type { ReadFile } from './pool-calls.js';

/** A hash of every range. The ranges are in the order of their bytes, and do not overlap. */
export interface HashTask {
  readonly algorithm: HashAlgorithm;
  readonly ranges: readonly ByteRange[];
}

/** A task, and how far the thread has come. */
interface TaskProgress extends HashTask {
  /** The first range that has not ended. */
  current: number;
  readonly digests: string[];
}

/** A thread with the hashes that it computes in one pass over a file. */
export class HashTasks {
  readonly #thread: HashingThread;
  readonly #tasks: readonly TaskProgress[];

  /** The memory is that of `addMemory`. */
  constructor(tasks: readonly HashTask[], memory?: Uint8Array<SharedArrayBuffer>) {
    this.#thread = new HashingThread(memory);
    this.#tasks = tasks.map((task) => ({ ...task, current: 0, digests: [] }));
  }

  /**
   * Has the thread read the bytes [begin, end) of the file, which follow those before. Resolves when they are hashed.
   *
   * @throws As `HashingThread.hashFile`
   */
  async addFile(file: ReadFile, begin: number, end: number): Promise<void> {
    const tasks = this.#partsOf(begin, end);
    if (tasks.length === 0) return;
    this.#keep(tasks, await this.#thread.hashFile(file, { ...extentOf(tasks), tasks }));
  }

  /** The same of bytes that are in the memory from `offset` on. */
  async addMemory(offset: number, begin: number, end: number): Promise<void> {
    const tasks = this.#partsOf(begin, end);
    if (tasks.length > 0) {
      this.#keep(tasks, await this.#thread.hashMemory(offset, { begin, end, tasks }));
    }
  }

  /** The digests of each task's ranges that have ended, in hexadecimal digits, in order. */
  digests(): readonly (readonly string[])[] {
    return this.#tasks.map(({ digests }) => digests);
  }

  /** Ends the thread; it uses neither memory nor descriptors afterwards. */
  async end(): Promise<void> {
    await this.#thread.end();
  }

  /** Cuts from the ranges what is in the piece; moves on to the first ranges that end after it. */
  #partsOf(begin: number, end: number): readonly TaskParts[] {
    const found: TaskParts[] = [];
    for (const [task, progress] of this.#tasks.entries()) {
      const { algorithm, ranges } = progress;
      const parts: number[] = [];
      for (; progress.current < ranges.length; progress.current++) {
        const range = ranges[progress.current] as ByteRange;
        const [from, to] = [Math.max(range.begin, begin), Math.min(range.end, end)];
        const isLast = range.end <= end;
        if (from < to || isLast) parts.push(from, to, isLast ? 1 : 0);
        if (!isLast) break;
      }
      if (parts.length > 0) found.push({ task, algorithm, parts });
    }
    return found;
  }

  #keep(tasks: readonly TaskParts[], digests: readonly (readonly string[])[]): void {
    for (const [i, { task }] of tasks.entries()) {
      const progress = this.#tasks[task] as TaskProgress;
      for (const digest of digests[i] as readonly string[]) progress.digests.push(digest);
    }
  }
}

/** The bytes from the first part to the last one: other threads may hash those around them. */
function extentOf(tasks: readonly TaskParts[]): ByteRange {
  const begins = tasks.map(({ parts }) => parts[0] as number);
  const ends = tasks.map(({ parts }) => parts.at(-2) as number);
  return { begin: Math.min(...begins), end: Math.max(...ends) };
}
