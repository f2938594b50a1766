/** Hashes ranges of a long file on two threads: the earlier ones on this thread, the later ones on another. */

import { type PassedFile, passOver, sharedDirectMemory } from '../../platform/io/direct-io.js';
import { type HashedRange, RangeHashes } from '../../platform/io/range-hashes.js';
import { HashThread } from './hash-thread.js';

/** What goes with hashing. */
export interface HashingOptions {
  readonly signal: AbortSignal | undefined;
  /** Called with the number of bytes that were read since the last call. */
  readonly onBytes: (byteLength: number) => void;
}

/**
 * Returns the SHA-256 of the ranges by their names, in hexadecimal digits. Each thread has its own reads, of
 * places in the file that are far apart.
 *
 * @param ranges in the order of their bytes, without overlaps
 * @throws As `hashOpened`
 */
export async function hashRanges(
  file: PassedFile,
  ranges: readonly HashedRange[],
  { signal, onBytes }: HashingOptions,
): Promise<ReadonlyMap<string, string>> {
  const [earlier, later] = halves(ranges, file.byteLength);
  const middle = later[0]?.begin ?? file.byteLength;
  const [ownMemory, sharedMemory] = [sharedDirectMemory(file), sharedDirectMemory(file)];
  const own = new RangeHashes(earlier);
  const other = new ThreadRanges(later, new HashThread(sharedMemory));
  // What both have read of the piece in the middle counts once.
  const count = (begin: number, end: number): void => {
    if (end > begin) onBytes(end - begin);
  };
  const useOwn = async (begin: number, end: number, position: number): Promise<void> => {
    signal?.throwIfAborted();
    own.add(ownMemory.subarray(begin, end));
    count(position, Math.min(position + end - begin, middle));
  };
  const useOther = async (begin: number, end: number, position: number): Promise<void> => {
    signal?.throwIfAborted();
    count(Math.max(position, middle), position + end - begin);
    await other.add(begin, end, position);
  };
  try {
    const passes = [
      passOver(file, ownMemory, useOwn, { begin: 0, end: middle }),
      passOver(file, sharedMemory, useOther, { begin: middle, end: file.byteLength }),
    ];
    // Neither may read into memory, or from the descriptor, after the other has failed.
    await Promise.allSettled(passes);
    await Promise.all(passes);
    return new Map([...own.digests(), ...(await other.digests())]);
  } finally {
    await other.end();
  }
}

/** The ranges up to half of the file's bytes, and those after them. */
function halves(
  ranges: readonly HashedRange[],
  byteLength: number,
): readonly [readonly HashedRange[], readonly HashedRange[]] {
  const found = ranges.findIndex(({ begin, end }) => begin + end > byteLength);
  const at = found < 0 ? ranges.length : found;
  return [ranges.slice(0, at), ranges.slice(at)];
}

/** Has a thread hash ranges from the bytes of a file as they go by. */
class ThreadRanges {
  readonly #ranges: readonly HashedRange[];
  readonly #thread: HashThread;
  readonly #digests: Promise<readonly [name: string, digest: string]>[] = [];
  #current = 0;

  constructor(ranges: readonly HashedRange[], thread: HashThread) {
    this.#ranges = ranges;
    this.#thread = thread;
  }

  /** Takes the bytes [begin, end) of the thread's memory. Resolves when they may be overwritten. */
  async add(begin: number, end: number, position: number): Promise<void> {
    const added: Promise<void>[] = [];
    const last = position + end - begin;
    for (; this.#current < this.#ranges.length; this.#current++) {
      const range = this.#ranges[this.#current] as HashedRange;
      const from = Math.max(range.begin, position);
      const to = Math.min(range.end, last);
      if (from < to)
        added.push(this.#thread.update(begin + from - position, begin + to - position));
      if (range.end > last) break;
      const digest = this.#thread.digest().then((digits) => [range.name, digits] as const);
      // Awaited at the end; until then Node must not report a rejection as unhandled.
      digest.catch(() => {});
      this.#digests.push(digest);
    }
    await Promise.all(added);
  }

  /** The digests by name. */
  async digests(): Promise<(readonly [string, string])[]> {
    return await Promise.all(this.#digests);
  }

  async end(): Promise<void> {
    await this.#thread.end();
  }
}
