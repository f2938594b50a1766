/** The CRC-32 of parts of a file: in a long file on separate threads. */

import { crc32 } from 'node:zlib';
import { HashingThread } from '../platform/io/hashing-thread.js';
import { readBytesOf, readFully } from '../platform/io/opened-file.js';
import type { ReadFile } from '../platform/io/pool-calls.js';
import { mayStartThread } from '../platform/io/threads.js';
import type { Storage } from '../tensor/storage/storage.js';
import type { ByteRange } from '../work/byte-ranges.js';
import { runAsync } from '../work/work.js';
import { yieldIfDue } from '../work/yielding.js';

/** Below this length, starting threads takes longer than they save. */
const THREADS_BYTE_LENGTH = 256 * 2 ** 20;

/** Pieces of this thread stay in the processor's cache between reading and adding up. */
const PIECE_BYTE_LENGTH = 2 ** 18;

/** Reading and adding up take about as long, so that a third thread would gain little. */
const THREADS = 2;

/** Bytes for a thread at once: each message to it costs about 50 µs. */
const THREAD_PIECE_BYTE_LENGTH = 4 * 2 ** 20;

/** Computes checksums of parts of one file. */
export interface Crc32Parts {
  /** The longest piece. */
  readonly pieceByteLength: number;
  /**
   * Reads the bytes [begin, end) of the file, and returns the CRC-32 of each part of them.
   *
   * @throws FileChangedError when the file ends earlier; errors of the system
   */
  of(piece: ByteRange, parts: readonly ByteRange[]): Promise<readonly number[]>;
  /** Ends the threads, which use the descriptor until then. */
  end(): Promise<void>;
}

/** Begins the checksums of so many bytes of the file, of which there is a storage. */
export function crc32Parts(file: ReadFile, storage: Storage, byteLength: number): Crc32Parts {
  const isLong = byteLength >= THREADS_BYTE_LENGTH && mayStartThread();
  return isLong ? onThreads(file) : here(file, storage);
}

function onThreads(file: ReadFile): Crc32Parts {
  const threads = Array.from({ length: THREADS }, () => new HashingThread());
  let next = 0;
  return {
    pieceByteLength: THREAD_PIECE_BYTE_LENGTH,
    of: async ({ begin, end }, parts) => {
      const thread = threads[next++ % THREADS] as HashingThread;
      const numbers = parts.flatMap((part) => [part.begin, part.end, 1]);
      const tasks = [{ task: 0, algorithm: 'crc32', parts: numbers } as const];
      const [digests = []] = await thread.hashFile(file, { begin, end, tasks });
      return digests.map((digits) => Number.parseInt(digits, 16));
    },
    end: async () => {
      await Promise.all(threads.map((thread) => thread.end()));
    },
  };
}

/** Reads what is in the page cache on this thread, which takes less time than a call on the pool, the rest there. */
function here(file: ReadFile, storage: Storage): Crc32Parts {
  const read = readBytesOf(file);
  const free: Uint8Array[] = [];
  return {
    pieceByteLength: PIECE_BYTE_LENGTH,
    of: async ({ begin: from, end: to }, parts) => {
      await yieldIfDue();
      const buffer = free.pop() ?? new Uint8Array(PIECE_BYTE_LENGTH);
      const bytes = buffer.subarray(0, to - from);
      // Empty entries have a piece without bytes.
      const isCached =
        from < to && storage.readCachedRanges?.(Float64Array.of(from, to - from), bytes) === true;
      if (!isCached) await runAsync(readFully(read, bytes, from, file.path), undefined);
      const found = parts.map(({ begin, end }) => crc32(bytes.subarray(begin - from, end - from)));
      free.push(buffer);
      return found;
    },
    end: async () => {},
  };
}
