/**
 * The only module that loads the addon, and the place where its return values become errors.
 *
 * The addon maps files, hands out external ArrayBuffers over a mapping and guards it. Opening by
 * path, the checks of header and limits and their wording are done by its callers.
 */

import { existsSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { getSystemErrorName } from 'node:util';
import { DTYPE_NAMES, type Dtype } from './dtype.js';
import { argumentRangeError, argumentTypeError } from './errors.js';

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
}

/** The addon, or why there is none: a clause that can follow "because". */
export type NativeLoad = { readonly binding: NativeBinding } | { readonly unavailable: string };

/** What the addon returns instead of a result: a negative errno, or the name of an argument. */
type Failure = number | string;

/** Where there is no result, 0 stands for success. */
interface Addon {
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
}

/** The addon's arguments by name, and what each must be. */
const EXPECTED_ARGUMENT: Readonly<Record<string, string>> = {
  fd: 'a file descriptor',
  byteLength: 'an integer above 0 and within the mapping',
  byteOffset: 'an integer such that the range lies within the mapping',
  guard: 'a boolean',
  mapping: 'a mapping',
  state: 'a Float64Array of length 4',
  position: 'a position in a file',
  target: 'a Uint8Array that is not empty',
  buffers: "an array of the mapping's buffers",
  dtype: 'the name of a dtype',
  bytes: 'a Uint8Array',
  output: 'a Float32Array with a value for every element of bytes',
  level: 'best, plain or avx2',
};

const NO_MEMORY_ADVICE =
  "; raise the limit of the process's addresses (ulimit -v), allow overcommit " +
  "(vm.overcommit_memory), or open the file with { storage: 'read' }";

/** `syscall` is what failed below the addon's function, `args` are the arguments it was given. */
function failure(
  result: Failure,
  syscall: string,
  args: Record<string, unknown>,
  path?: string,
): Error {
  if (typeof result === 'number') {
    const code = getSystemErrorName(result);
    const advice = syscall === 'mmap' && code === 'ENOMEM' ? NO_MEMORY_ADVICE : '';
    const subject = path === undefined ? '' : ` '${path}'`;
    const error = new Error(`${code}: ${syscall}${subject} failed${advice}`);
    return Object.assign(
      error,
      { errno: result, code, syscall },
      path === undefined ? {} : { path },
    );
  }
  const actual = args[result];
  const argumentError = typeof actual === 'number' ? argumentRangeError : argumentTypeError;
  return argumentError(result, EXPECTED_ARGUMENT[result] ?? 'valid', actual);
}

function bind(addon: Addon): NativeBinding {
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
  };
}

/** A build in a clone comes first; the published package has only the prebuilt file. */
const ADDON_FILES: readonly string[] = [
  'build/Release/safetensors-mmap.node',
  `prebuilds/${process.platform}-${process.arch}/safetensors-mmap.node`,
];

/** Bun and Deno count external memory in ways of their own, which the addon leaves alone. */
const isNode: boolean =
  process.versions['bun'] === undefined && process.versions['deno'] === undefined;

function findAddon(): string | undefined {
  const paths = ADDON_FILES.map((name) => join(import.meta.dirname, '..', name));
  return paths.find((path) => existsSync(path));
}

function use(addon: Addon): NativeLoad {
  if (!addon.externalBuffersAllowed()) {
    return { unavailable: 'this runtime does not allow ArrayBuffers over foreign memory' };
  }
  if (isNode) addon.compensateExternalMemory();
  return { binding: bind(addon) };
}

let loaded: NativeLoad | undefined;

/**
 * Loads the addon once; later calls return the same answer. Only a failure to load it is not
 * remembered: it may pass, as when the process is out of descriptors. Never throws.
 */
export function loadNative(): NativeLoad {
  if (loaded !== undefined) return loaded;
  const file = findAddon();
  if (file === undefined) {
    loaded = { unavailable: `there is no addon for ${process.platform}-${process.arch}` };
    return loaded;
  }
  // Not by `require`, the making of which takes ten times as long as this.
  const module = { exports: {} as Addon };
  try {
    process.dlopen(module, file);
  } catch (error) {
    return { unavailable: `the addon could not be loaded: ${String(error)}` };
  }
  loaded = use(module.exports);
  return loaded;
}
