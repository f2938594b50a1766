/** What the addon can do, and its functions with failures thrown as errors. Loading: `native`. */

import { DTYPE_NAMES, type Dtype } from '../format/dtype.js';
import { type Failure, failure } from './failures.js';

declare const mappingBrand: unique symbol;

/**
 * A file mapped copy-on-write; an opaque object of the addon. When it is collected without having
 * been released, that releases it.
 */
export interface Mapping {
  /** Only the addon makes mappings. */
  readonly [mappingBrand]: never;
}

/** Instructions of a conversion; `best` is what the processor has. Only tests choose. */
export type ConversionLevel = 'best' | 'plain' | 'avx2';

/** In the order of the addon's own enumeration. */
const LEVELS: readonly ConversionLevel[] = ['best', 'plain', 'avx2'];

/** Two files, where to begin in each, and how much; positions and length in bytes. */
export type CopyArguments = [
  sourceFd: number,
  sourcePosition: number,
  targetFd: number,
  targetPosition: number,
  byteLength: number,
];

/**
 * What the addon can do. Arguments that it cannot use are a `TypeError`; failures of the system are
 * errors with `code`, `errno` and `syscall`, as those of `node:fs`.
 */
export interface NativeBinding {
  /**
   * Maps `byteLength` > 0 bytes of a regular file from its start, readable and writable; what is
   * written stays private to this mapping, which holds a duplicate of `fd` until it goes; `fd` stays
   * the caller's. With `guard`, where there is one (Linux), a page that a truncation took away reads
   * as zeros instead of killing the process. `path` is for errors.
   */
  mapFile(fd: number, byteLength: number, guard: boolean, path?: string): Mapping;
  /**
   * A new external ArrayBuffer over `byteLength` > 0 bytes of the mapping from `byteOffset`: no
   * copy, at whatever address that is. It keeps the mapping alive until it is collected. The caller
   * has checked that the runtime can make a buffer of that size. `EBADF` when the mapping was
   * released.
   */
  tensorBuffer(mapping: Mapping, byteOffset: number, byteLength: number): ArrayBuffer;
  /**
   * Writes what the kept descriptor says about the file now, and what the guard saw, into `state`,
   * an array of four: size in bytes, modification time in whole seconds and in nanoseconds within
   * the second, and 1 when a reader has hit a page that is gone (else 0). `EBADF` when the mapping
   * was released.
   */
  readFileState(mapping: Mapping, state: Float64Array): void;
  /**
   * Reads bytes of the file from `position` into `target`, of at least one byte, by its descriptor:
   * what the file holds, whatever was written to the mapping. How many; 0 at the file's end. `EBADF`
   * when the mapping was released.
   */
  readBytes(mapping: Mapping, position: number, target: Uint8Array): number;
  /**
   * Brings the pages of `byteLength` > 0 bytes of the mapping from `byteOffset` into memory and into
   * the page table, on the thread pool: nothing is copied, and nobody waits for the disk afterwards.
   * Keeps the mapping until it is done, also when that is released or detached meanwhile. Rejects
   * with `EIO` when a page cannot be read, as behind the end of a file that was cut short; `EBADF`
   * when the mapping was released.
   */
  populate(mapping: Mapping, byteOffset: number, byteLength: number): Promise<void>;
  /**
   * How many of `byteLength` > 0 bytes of the mapping from `byteOffset` are in memory; null where
   * the kernel does not tell. `EBADF` when the mapping was released.
   */
  residentBytes(mapping: Mapping, byteOffset: number, byteLength: number): number | null;
  /**
   * A new descriptor of the mapped file, to be given to `closeDescriptor`; a worker that ends before
   * leaves none behind. The mapping's own goes with the mapping. `EBADF` when that was released.
   */
  duplicateDescriptor(mapping: Mapping): number;
  /** Closes a descriptor made by `duplicateDescriptor`. */
  closeDescriptor(fd: number): void;
  /**
   * Ends the handle. Buffers handed out stay valid; the mapping goes when the last of them is
   * collected, at once when there is none. May be called again.
   */
  release(mapping: Mapping): void;
  /**
   * Ends the handle and takes `buffers`, all that were handed out, from their holders: they are
   * detached, file and memory are free at once. Whoever still has the bare address (a buffer moved
   * with `transfer()`, work on the thread pool) reads zeros. May be called again, and after
   * `release`, which then does nothing.
   */
  detach(mapping: Mapping, buffers: readonly ArrayBuffer[]): void;
  /**
   * Converts packed elements, at any alignment, to float32 on this thread. `output` has a value for
   * every element of `bytes`, two for one of C64. `ENOTSUP` when the processor lacks the level.
   */
  convert(dtype: Dtype, bytes: Uint8Array, output: Float32Array, level?: ConversionLevel): void;
  /**
   * The same on a thread of the pool. Both arrays are kept alive; until the promise settles, nobody
   * may detach or resize their buffers, or the thread reads or writes memory that is gone.
   */
  convertAsync(dtype: Dtype, bytes: Uint8Array, output: Float32Array): Promise<void>;
  /**
   * Gives a file disk space for its first `byteLength` > 0 bytes and makes it that long, where it is
   * shorter; they read as zeros until they are written. `ENOSPC`, `EDQUOT` and `EFBIG` say that
   * there is no room, `ENOTSUP` and others that the system or the file system cannot say.
   */
  allocate(fd: number, byteLength: number): void;
  /** The same on a thread of the pool; `fd` stays open until the promise settles. */
  allocateAsync(fd: number, byteLength: number): Promise<void>;
  /**
   * Copies up to `byteLength` > 0 bytes from one file to another without their entering the
   * process. How many; 0 at the source's end. `ENOTSUP` where the system cannot, `EXDEV`, `EINVAL`
   * and others where it does not for these two files.
   */
  copyFileRange(...args: CopyArguments): number;
  /** The same on a thread of the pool; both descriptors stay open until the promise settles. */
  copyFileRangeAsync(...args: CopyArguments): Promise<number>;
  /**
   * Copies up to 1 024 ranges, 16 MiB in all, one after the other through a buffer. `ranges` holds
   * descriptor, position and length > 0 of each. How many bytes: fewer where a source ends or an
   * error came after some of them. `ENOTSUP` where the system cannot.
   */
  gatherRanges(ranges: Float64Array, targetFd: number, targetPosition: number): number;
  /** The same on a thread of the pool; all descriptors stay open until the promise settles. */
  gatherRangesAsync(
    ranges: Float64Array,
    targetFd: number,
    targetPosition: number,
  ): Promise<number>;
}

/** The addon itself. Where there is no result, 0 stands for success. */
export interface Addon {
  compensateExternalMemory(): 0;
  externalBuffersAllowed(): boolean;
  mapFile(fd: number, byteLength: number, guard: boolean): Mapping | Failure;
  tensorBuffer(mapping: Mapping, byteOffset: number, byteLength: number): ArrayBuffer | Failure;
  readFileState(mapping: Mapping, state: Float64Array): Failure;
  readBytes(mapping: Mapping, position: number, target: Uint8Array): Failure;
  populate(mapping: Mapping, byteOffset: number, byteLength: number): Promise<number> | Failure;
  residentBytes(mapping: Mapping, byteOffset: number, byteLength: number): number | null | string;
  duplicateDescriptor(mapping: Mapping): number | string;
  closeDescriptor(fd: number): Failure;
  release(mapping: Mapping): Failure;
  detach(mapping: Mapping, buffers: readonly ArrayBuffer[]): Failure;
  convert(dtype: number, bytes: Uint8Array, output: Float32Array, level: number): Failure;
  convertAsync(
    dtype: number,
    bytes: Uint8Array,
    output: Float32Array,
    level: number,
  ): Promise<void> | Failure;
  allocate(fd: number, byteLength: number): Failure;
  allocateAsync(fd: number, byteLength: number): Promise<number> | Failure;
  copyFileRange(...args: CopyArguments): Failure;
  copyFileRangeAsync(...args: CopyArguments): Promise<number> | Failure;
  gatherRanges(ranges: Float64Array, targetFd: number, targetPosition: number): Failure;
  gatherRangesAsync(
    ranges: Float64Array,
    targetFd: number,
    targetPosition: number,
  ): Promise<number> | Failure;
}

/** The addon with its failures thrown. */
export function bind(addon: Addon): NativeBinding {
  return {
    mapFile(fd, byteLength, guard, path) {
      const result = addon.mapFile(fd, byteLength, guard);
      if (typeof result !== 'object')
        throw failure(result, 'mmap', { fd, byteLength, guard }, path);
      return result;
    },
    tensorBuffer(mapping, byteOffset, byteLength) {
      const result = addon.tensorBuffer(mapping, byteOffset, byteLength);
      if (typeof result === 'object') return result;
      throw failure(result, 'tensorBuffer', { mapping, byteOffset, byteLength });
    },
    readFileState(mapping, state) {
      const result = addon.readFileState(mapping, state);
      if (result !== 0) throw failure(result, 'fstat', { mapping, state });
    },
    readBytes(mapping, position, target) {
      const result = addon.readBytes(mapping, position, target);
      if (typeof result === 'number' && result >= 0) return result;
      throw failure(result, 'pread', { mapping, position, target });
    },
    async populate(mapping, byteOffset, byteLength) {
      const result = await addon.populate(mapping, byteOffset, byteLength);
      if (result !== 0) throw failure(result, 'madvise', { mapping, byteOffset, byteLength });
    },
    residentBytes(mapping, byteOffset, byteLength) {
      const result = addon.residentBytes(mapping, byteOffset, byteLength);
      if (result === null || (typeof result === 'number' && result >= 0)) return result;
      throw failure(result, 'mincore', { mapping, byteOffset, byteLength });
    },
    duplicateDescriptor(mapping) {
      const result = addon.duplicateDescriptor(mapping);
      if (typeof result === 'number' && result >= 0) return result;
      throw failure(result, 'fcntl', { mapping });
    },
    closeDescriptor(fd) {
      const result = addon.closeDescriptor(fd);
      if (result !== 0) throw failure(result, 'close', { fd });
    },
    release(mapping) {
      const result = addon.release(mapping);
      if (result !== 0) throw failure(result, 'munmap', { mapping });
    },
    detach(mapping, buffers) {
      const result = addon.detach(mapping, buffers);
      if (result !== 0) throw failure(result, 'mmap', { mapping, buffers });
    },
    convert(dtype, bytes, output, level = 'best') {
      const code = DTYPE_NAMES.indexOf(dtype);
      const result = addon.convert(code, bytes, output, LEVELS.indexOf(level));
      if (result !== 0) throw failure(result, 'convert', { dtype, bytes, output, level });
    },
    convertAsync(dtype, bytes, output) {
      const code = DTYPE_NAMES.indexOf(dtype);
      const result = addon.convertAsync(code, bytes, output, LEVELS.indexOf('best'));
      if (typeof result === 'object') return result;
      throw failure(result, 'convertAsync', { dtype, bytes, output });
    },
    allocate(fd, byteLength) {
      const result = addon.allocate(fd, byteLength);
      if (result !== 0) throw failure(result, 'fallocate', { fd, byteLength });
    },
    async allocateAsync(fd, byteLength) {
      const result = await addon.allocateAsync(fd, byteLength);
      if (result !== 0) throw failure(result, 'fallocate', { fd, byteLength });
    },
    copyFileRange(...args) {
      return copied(addon.copyFileRange(...args), args);
    },
    async copyFileRangeAsync(...args) {
      return copied(await addon.copyFileRangeAsync(...args), args);
    },
    gatherRanges(ranges, targetFd, targetPosition) {
      const result = addon.gatherRanges(ranges, targetFd, targetPosition);
      return gathered(result, { ranges, targetFd, targetPosition });
    },
    async gatherRangesAsync(ranges, targetFd, targetPosition) {
      const result = await addon.gatherRangesAsync(ranges, targetFd, targetPosition);
      return gathered(result, { ranges, targetFd, targetPosition });
    },
  };
}

function copied(result: Failure, args: CopyArguments): number {
  if (typeof result === 'number' && result >= 0) return result;
  const [sourceFd, sourcePosition, targetFd, targetPosition, byteLength] = args;
  const named = { sourceFd, sourcePosition, targetFd, targetPosition, byteLength };
  throw failure(result, 'copy_file_range', named);
}

function gathered(result: Failure, named: Parameters<typeof failure>[2]): number {
  if (typeof result === 'number' && result >= 0) return result;
  throw failure(result, 'pwrite', named);
}
