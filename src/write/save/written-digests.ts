/** Digests of a long file's tensors, computed on separate threads while the file is written. */

import { HashTasks } from '../../platform/io/hash-tasks.js';
import type { ReadFile } from '../../platform/io/pool-calls.js';
import type { ByteRange } from '../../work/byte-ranges.js';

const THREADS = 2;

/** Neighbours of up to this many bytes stay on one thread, which reads them together. */
const RUN_BYTE_LENGTH = 4 * 2 ** 20;

/**
 * Threads that read the file from the page cache and hash it. Pieces may be written in any order; a thread gets
 * bytes when everything before them is written.
 */
export class WrittenDigests {
  readonly #target: ReadFile;
  readonly #shares: readonly (readonly number[])[];
  readonly #threads: readonly HashTasks[];
  readonly #hashing: Promise<void>[] = [];
  /** Lengths of written pieces, by their positions. */
  readonly #written = new Map<number, number>();
  /** Everything before it is written. */
  #end = 0;

  /** The target must be open for reading until `end`. */
  constructor(target: ReadFile, ranges: readonly ByteRange[]) {
    this.#target = target;
    this.#shares = sharesOf(ranges);
    this.#threads = this.#shares.map((share) => {
      const own = share.map((i) => ranges[i] as ByteRange);
      return new HashTasks([{ algorithm: 'sha256', ranges: own }]);
    });
  }

  /** Has the threads hash bytes that have been written. */
  add(position: number, byteLength: number): void {
    if (byteLength === 0) return;
    this.#written.set(position, byteLength);
    const begin = this.#end;
    for (;;) {
      const length = this.#written.get(this.#end);
      if (length === undefined) break;
      this.#written.delete(this.#end);
      this.#end += length;
    }
    if (this.#end === begin) return;
    for (const thread of this.#threads) {
      const hashed = thread.addFile(this.#target, begin, this.#end);
      // Awaited by `digests`; until then Node must not report a rejection as unhandled.
      hashed.catch(() => {});
      this.#hashing.push(hashed);
    }
  }

  /**
   * Returns the digests in the order of the ranges, once all bytes are written.
   *
   * @throws FileChangedError when the file was truncated meanwhile; errors of the system
   */
  async digests(): Promise<readonly string[]> {
    await Promise.all(this.#hashing);
    const digests: string[] = [];
    for (const [at, share] of this.#shares.entries()) {
      const [found = []] = (this.#threads[at] as HashTasks).digests();
      for (const [j, i] of share.entries()) digests[i] = found[j] as string;
    }
    return digests;
  }

  /** Ends the threads; they do not use the descriptor afterwards. */
  async end(): Promise<void> {
    await Promise.all(this.#threads.map((thread) => thread.end()));
  }
}

/** Gives each run of neighbours to the thread that has less to hash so far. Returns positions of ranges. */
export function sharesOf(ranges: readonly ByteRange[]): readonly (readonly number[])[] {
  const shares = Array.from({ length: THREADS }, (): number[] => []);
  const loads = shares.map(() => 0);
  let [thread, run] = [0, 0];
  for (const [i, { begin, end }] of ranges.entries()) {
    const byteLength = end - begin;
    if (run + byteLength > RUN_BYTE_LENGTH) {
      thread = loads.indexOf(Math.min(...loads));
      run = 0;
    }
    run += byteLength;
    loads[thread] = (loads[thread] as number) + byteLength;
    (shares[thread] as number[]).push(i);
  }
  return shares;
}
