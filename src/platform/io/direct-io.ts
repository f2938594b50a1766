/**
 * Reads files whose bytes are wanted once: from the page cache where they are there, else past it. That takes less of
 * the processor's time, and leaves in the cache what others need.
 */

import { constants, open } from 'node:fs';
import { promisify } from 'node:util';
import { allocate } from '../../errors/out-of-memory.js';
import { type ByteRange, cut } from '../../work/byte-ranges.js';
import { loadAddon, type Mapping } from '../addon/load.js';
import { closeQuietly, IS_DENO } from './file-calls.js';
import { truncatedError } from './opened-file.js';
import { type ReadFile, readAsync } from './pool-calls.js';
import { hasCode } from './system-errors.js';

/** Reads past the page cache begin and end at multiples of it, in the file and in memory. */
export const BLOCK_BYTE_LENGTH = 4096;

/** Bytes of one read. Measured with 1 to 8 MiB. */
export const DIRECT_READ_BYTE_LENGTH: number = 4 * 2 ** 20;

/** Pieces in memory at once, which are read or used. Measured with 4 to 8. */
const PIECES = 6;

/** As `native/prefetch_linux.cc` has it. */
const HUGE_PAGE_BYTE_LENGTH = 2 * 2 ** 20;

/** Errors of a file system, or a place in memory, that has no reads past the cache. */
const UNSUPPORTED: readonly string[] = ['EINVAL', 'ENOTSUP', 'EOPNOTSUPP'];

/** An open file that stays the caller's. */
export interface PassedFile extends ReadFile {
  /** Its size in bytes. */
  readonly byteLength: number;
}

/** What reads past the cache need. */
interface PastCache {
  readonly file: ReadFile;
  /** False for a range that is in the cache, or may be. */
  isBetter(position: number, byteLength: number): boolean;
  close(): void;
}

/**
 * Returns memory for such reads, which they alone touch: on Linux in huge pages where they can be had, since a read
 * past the cache looks up every page of its target.
 *
 * @throws SafetensorsError `SAFETENSORS_OUT_OF_MEMORY`
 */
export function directMemory(
  byteLength: number,
  path: string | undefined,
): Uint8Array<ArrayBuffer> {
  const whole = allocate(Uint8Array, byteLength + HUGE_PAGE_BYTE_LENGTH, { path });
  return fromHugePage(whole, byteLength) as Uint8Array<ArrayBuffer>;
}

/** Memory that a pass no longer uses. The passes over many files would otherwise leave that of each to be collected. */
let spare: WeakRef<Uint8Array<SharedArrayBuffer>> | undefined;

/** The same for several threads: for some pieces of a file, or all of a short one. */
export function sharedDirectMemory(file: PassedFile): Uint8Array<SharedArrayBuffer> {
  const byteLength = Math.min(PIECES * DIRECT_READ_BYTE_LENGTH, blocksLength(file.byteLength));
  const used = spare?.deref();
  spare = undefined;
  if (used?.length === byteLength) return used;
  const whole = new Uint8Array(new SharedArrayBuffer(byteLength + HUGE_PAGE_BYTE_LENGTH));
  return fromHugePage(whole, byteLength) as Uint8Array<SharedArrayBuffer>;
}

/** Takes back memory of `sharedDirectMemory` that nothing touches any more, for the next file. */
export function reuseSharedMemory(memory: Uint8Array<SharedArrayBuffer>): void {
  spare = new WeakRef(memory);
}

function fromHugePage(memory: Uint8Array, byteLength: number): Uint8Array {
  const load = loadAddon();
  const begin = ('addon' in load && load.addon.hugePages(memory)) || 0;
  return memory.subarray(begin, begin + byteLength);
}

/** Returns the length of the blocks that hold so many bytes. */
export function blocksLength(byteLength: number): number {
  return Math.ceil(byteLength / BLOCK_BYTE_LENGTH) * BLOCK_BYTE_LENGTH;
}

/** A file that is read once. Its descriptor must stay open until `close`. */
export class DirectFile {
  readonly #file: PassedFile;
  readonly #pastCache: PastCache | undefined;
  #isUnsupported = false;

  private constructor(file: PassedFile, pastCache: PastCache | undefined) {
    this.#file = file;
    this.#pastCache = pastCache;
  }

  static async open(file: PassedFile): Promise<DirectFile> {
    return new DirectFile(file, await openPastCache(file));
  }

  /**
   * Fills the memory from `position` on, to the file's end at most; returns the bytes that are there. Position and
   * memory begin at a block, and whole blocks of memory may be overwritten.
   *
   * @throws FileChangedError when the file ends before it did when it was opened
   */
  async read(memory: Uint8Array, position: number): Promise<number> {
    const { byteLength, path } = this.#file;
    const end = Math.min(position + memory.length, byteLength);
    const isPast = !this.#isUnsupported && this.#pastCache?.isBetter(position, end - position);
    let file = isPast ? (this.#pastCache as PastCache).file : this.#file;
    let done = position;
    while (done < end) {
      const at = done - position;
      try {
        const { bytesRead } = await readAsync(file, memory, at, memory.length - at, done);
        if (bytesRead === 0) throw truncatedError(path, end, done);
        done += bytesRead;
      } catch (error) {
        if (file === this.#file || !hasCode(error, UNSUPPORTED)) throw error;
        // Later than at once it is the rest of a block, which the end of the file has cut.
        if (done === position) this.#isUnsupported = true;
        file = this.#file;
      }
    }
    return end - position;
  }

  /** Whether `read` takes these bytes from the page cache, as far as the system reports it. */
  isCached(position: number, byteLength: number): boolean {
    const length = Math.min(byteLength, this.#file.byteLength - position);
    return this.#pastCache?.isBetter(position, length) === false;
  }

  /** Call it when no read is under way. */
  close(): void {
    this.#pastCache?.close();
  }
}

/** Options of a pass over a file. */
interface PassOptions {
  /** The bytes of the file to read, which are rounded to pieces; all by default. */
  readonly range?: ByteRange | undefined;
  /** Takes the bytes [begin, end) of the file where they are in the page cache: they are not read into the memory. */
  readonly useCached?: ((begin: number, end: number) => Promise<void>) | undefined;
}

/**
 * Reads a file through the memory, a multiple of {@link DIRECT_READ_BYTE_LENGTH} long unless it holds the file.
 * `use` receives the pieces in order: bytes [begin, end) of the memory, which come from `position` of the file. They
 * are overwritten when its promise has resolved; the next piece does not wait for that.
 */
export async function passOver(
  file: PassedFile,
  memory: Uint8Array,
  use: (begin: number, end: number, position: number) => Promise<void>,
  { range = { begin: 0, end: file.byteLength }, useCached }: PassOptions = {},
): Promise<void> {
  const before = Math.floor(range.begin / DIRECT_READ_BYTE_LENGTH);
  const count = Math.ceil(range.end / DIRECT_READ_BYTE_LENGTH) - before;
  const places = Array.from(cut(0, memory.length, DIRECT_READ_BYTE_LENGTH));
  const passing = await DirectFile.open(file);
  // Returns how many bytes were read; undefined for those that `useCached` takes.
  const read = async (piece: number): Promise<number | undefined> => {
    if (piece >= count) return 0;
    const { begin, end } = places[piece % places.length] as ByteRange;
    const position = (before + piece) * DIRECT_READ_BYTE_LENGTH;
    if (useCached !== undefined && passing.isCached(position, end - begin)) return undefined;
    return await passing.read(memory.subarray(begin, end), position);
  };
  // Awaited in its turn; until then Node must not report a rejection as unhandled.
  const awaitedLater = (reading: Promise<number | undefined>): Promise<number | undefined> => {
    reading.catch(() => {});
    return reading;
  };
  // Of each place: the piece that is being read there, after the one before it was used.
  const reads = places.map((_, piece) => awaitedLater(read(piece)));
  try {
    for (let piece = 0; piece < count; piece++) {
      const at = piece % places.length;
      const byteLength = await (reads[at] as Promise<number | undefined>);
      const { begin, end } = places[at] as ByteRange;
      const position = (before + piece) * DIRECT_READ_BYTE_LENGTH;
      const used =
        byteLength === undefined
          ? useCached?.(position, Math.min(position + end - begin, file.byteLength))
          : use(begin, begin + byteLength, position);
      reads[at] = awaitedLater(Promise.resolve(used).then(() => read(piece + places.length)));
    }
    await Promise.all(reads);
  } finally {
    await Promise.allSettled(reads);
    passing.close();
  }
}

/** Opens the file a second time; undefined where it cannot be read past the cache. Ordinary reads say what is wrong. */
async function openPastCache({ fd, byteLength, path }: PassedFile): Promise<PastCache | undefined> {
  const load = loadAddon();
  // Deno's numbers of descriptors are its own.
  if (!('addon' in load) || constants.O_DIRECT === undefined || byteLength === 0 || IS_DENO) return;
  const { addon } = load;
  const flags = constants.O_RDONLY | constants.O_DIRECT;
  const direct = await promisify(open)(`/proc/self/fd/${fd}`, flags).catch(() => undefined);
  if (direct === undefined) return;
  let mapping: Mapping;
  try {
    // Nobody touches it: it is there to be asked about.
    mapping = addon.mapFile(fd, byteLength, false);
  } catch {
    closeQuietly(direct);
    return;
  }
  return {
    file: { fd: direct, path },
    isBetter(position, length) {
      try {
        const cached = addon.residentBytes(mapping, position, length);
        return cached !== null && cached < length / 2;
      } catch {
        // Then it is read as any file.
        return false;
      }
    },
    close() {
      closeQuietly(direct);
      addon.release(mapping);
    },
  };
}
