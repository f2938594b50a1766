/** The addon's functions in TypeScript: passes arguments through and turns failures into errors. */

import { DTYPE_NAMES, type Dtype } from '../../header/dtype.js';
import type { CastSource, CastTarget } from '../../tensor/float32/cast.js';
import {
  type InputElements,
  type MergedElements,
  NATIVE_BLOCK_TYPES,
  type NativeBlockType,
  type ProductRows,
  type ScaledRows,
  type SurveyedElements,
  type SurveyKind,
} from '../../tensor/float32/kernels.js';
import { type Failure, failure } from './failures.js';

declare const mappingBrand: unique symbol;

/** A file mapped copy-on-write; an opaque object of the addon. Collecting it releases it. */
export interface Mapping {
  /** Only the addon makes mappings. */
  readonly [mappingBrand]: never;
}

/** Instructions that a conversion may use; `best` are those of the processor. Only tests choose. */
export type ConversionLevel = 'best' | 'plain' | 'avx2';

/** In the order of the addon's own enumeration. */
const LEVELS: readonly ConversionLevel[] = ['best', 'plain', 'avx2'];

/**
 * The addon's functions. An unusable argument is a `TypeError` or `RangeError`; a failure
 * of the system is an error with `code`, `errno` and `syscall`, like those of `node:fs`. Functions
 * that return a promise reject with either, and with `ECANCELED` when the work was cancelled.
 */
export interface Addon {
  /**
   * One number, which changes when the guard finds a truncated mapping of this process, on any thread: reading it
   * saves a call.
   */
  readonly truncations: Uint32Array;
  /**
   * Maps `byteLength` > 0 bytes of a regular file from its start, readable and writable; writes stay private to this
   * mapping. It holds a duplicate of `fd` until it is unmapped; `fd` stays the caller's. With `guard` (on Linux), a
   * page lost to truncation reads as zeros instead of killing the process. `path` is for errors.
   */
  mapFile(fd: number, byteLength: number, guard: boolean, path?: string): Mapping;
  /**
   * Makes an external ArrayBuffer over `byteLength` > 0 bytes of the mapping from `byteOffset`, at
   * any address, without a copy. It keeps the mapping alive until it is collected. The caller has
   * checked that the runtime can make a buffer of that size. `EBADF` when the mapping was released.
   */
  tensorBuffer(mapping: Mapping, byteOffset: number, byteLength: number): ArrayBuffer;
  /**
   * Writes the file's current facts, by the kept descriptor, and the guard's finding into `state`,
   * an array of four: size in bytes, modification time in whole seconds and in nanoseconds within
   * the second, and 1 when a reader has hit a page that is gone (else 0). Only the last one after
   * `closeFile`. `EBADF` when the mapping was released.
   */
  readFileState(mapping: Mapping, state: Float64Array): void;
  /**
   * Reads bytes of the file from `position` into `target`, of at least one byte. They come from the descriptor: the
   * file's content, whatever was written to the mapping. Returns how many; 0 at the file's end. `EBADF` when the
   * mapping was released.
   */
  readBytes(mapping: Mapping, position: number, target: Uint8Array): number;
  /**
   * Brings the pages of `byteLength` > 0 bytes of the mapping from `byteOffset` into memory and into the page table,
   * on the thread pool. Nothing is copied, and reading them afterwards does not wait for the disk. Keeps the mapping
   * until it is done, even if that is released or detached meanwhile. `EIO` when a page cannot be read, such as after
   * the end of a truncated file; `EBADF` when the mapping was released.
   */
  populate(mapping: Mapping, byteOffset: number, byteLength: number): Promise<void>;
  /**
   * As above, for up to 1 024 ranges, which the disk reads together. `ranges` holds offset and length > 0
   * of each.
   */
  populateRanges(mapping: Mapping, ranges: Float64Array): Promise<void>;
  /**
   * Tells the system, before any other call on the mapping, that its pages are touched in any order: a touch then
   * reads one page and none around it. Windows takes no such advice. `EBADF` when the mapping was released.
   */
  adviseRandom(mapping: Mapping): void;
  /**
   * Reads up to 1 024 ranges of the file into `target`, one after the other; `ranges` as above. They are read
   * by position on Linux, and copied from the mapping elsewhere. Call it only while no memory of the mapping was
   * exposed: a part that somebody wrote to may come from either. `target` has
   * exactly as many bytes. `EIO` when the disk fails; `EBADF` when the mapping was released.
   */
  readRanges(mapping: Mapping, ranges: Float64Array, target: Uint8Array): void;
  /**
   * As above, if all ranges are in the page cache: never waits for the disk. Returns false where one is not, or where
   * the system has no such reads, as outside Linux; the content of `target` is undefined then.
   */
  readCachedRanges(mapping: Mapping, ranges: Float64Array, target: Uint8Array): boolean;
  /**
   * As `readRanges`, on the thread pool. No other code may reach the memory of `target`. Keeps mapping and file until
   * it is done, even if they are released, closed or detached meanwhile.
   */
  readRangesAsync(mapping: Mapping, ranges: Float64Array, target: Uint8Array): Promise<void>;
  /**
   * Counts how many of `byteLength` > 0 bytes of the mapping from `byteOffset` are in memory; null where the kernel
   * gives no answer. `EBADF` when the mapping was released.
   */
  residentBytes(mapping: Mapping, byteOffset: number, byteLength: number): number | null;
  /**
   * Asks for huge pages in memory that nothing was written to yet, for reads past the page cache. Returns how many
   * bytes lie before the first; null where there are none.
   */
  hugePages(bytes: Uint8Array): number | null;
  /**
   * Makes a second descriptor of the mapped file, which outlives the mapping. The caller closes it
   * with `closeDescriptor`; the end of a worker does when that comes first. `EBADF` when the mapping
   * was released.
   */
  duplicateDescriptor(mapping: Mapping): number;
  /** Closes a descriptor made by `duplicateDescriptor`. */
  closeDescriptor(fd: number): void;
  /**
   * Closes the mapping's descriptor: the file's size and bytes cannot be read any more. The rest works as before,
   * until the mapping is released. May be called again.
   */
  closeFile(mapping: Mapping): void;
  /**
   * Ends the handle and closes its descriptor. Buffers exposed stay valid. The file is unmapped when the last of
   * them is collected, or at once without any. May be called again.
   */
  release(mapping: Mapping): void;
  /**
   * Collects garbage (in Node; other engines choose the time), and releases all mappings of
   * this thread whose objects are garbage. Without this call they are released after a turn of the
   * event loop.
   */
  releaseDropped(): void;
  /**
   * Ends the handle and empties `buffers`, which must be the mapping's: file and memory are free at once. Reads
   * through a remaining address (a buffer that is not among them or was moved with `transfer()`, work on the thread
   * pool) give zeros. Does nothing when the handle has ended already. On Node 24 and newer a buffer that was marked
   * by `markAsUntransferable` ends the process.
   *
   * `emptied` is the number of further buffers of the mapping that the caller has emptied. If the mapping has no
   * others, addresses can be freed before the finalizers have run.
   */
  detach(mapping: Mapping, buffers: readonly ArrayBuffer[], emptied?: number): void;
  /**
   * Converts packed elements, at any alignment, to float32 on this thread. `output` has a value for
   * every element of `bytes`, two for one of C64. `ENOTSUP` when the processor lacks the level.
   */
  convert(dtype: Dtype, bytes: Uint8Array, output: Float32Array, level?: ConversionLevel): void;
  /**
   * As `convert`, on a thread of the pool. Keeps both arrays alive. Their buffers must not be detached or resized
   * until the promise settles, or the thread uses freed memory.
   */
  convertAsync(dtype: Dtype, bytes: Uint8Array, output: Float32Array): Promise<void>;
  /**
   * Casts packed little-endian elements of F32, F64, F16 or BF16 to another dtype: F32, F16, BF16, F8_E4M3
   * or F8_E5M2. At any alignment; not over the same memory. Returns the number of elements too large for it.
   */
  cast(
    from: CastSource,
    to: CastTarget,
    bytes: Uint8Array,
    output: Uint8Array,
    level?: ConversionLevel,
  ): number;
  /** As `cast`, on the pool, under the terms of `convertAsync`. */
  castAsync(
    from: CastSource,
    to: CastTarget,
    bytes: Uint8Array,
    output: Uint8Array,
  ): Promise<number>;
  /**
   * Converts rows as `convert` does, then multiplies each value by the scale of its block. Rows have whole bytes; the
   * output has whole rows.
   */
  dequantizeRows(rows: ScaledRows, level?: ConversionLevel): void;
  /** Decodes whole blocks of GGUF, at any alignment, to exactly their values. */
  decodeBlocks(
    type: NativeBlockType,
    bytes: Uint8Array,
    output: Float32Array,
    level?: ConversionLevel,
  ): void;
  /**
   * Adds a product of factors to rows of F64, F32, F16 or BF16, accumulated in float64, and rounds once. Returns how
   * many results are NaN, infinite or too large for the dtype; 0 for F64. At any alignment; not over the same memory.
   */
  addProduct(rows: ProductRows, level?: ConversionLevel): number;
  /** As `addProduct`, on the pool, under the terms of `convertAsync` for all four arrays. */
  addProductAsync(rows: ProductRows): Promise<number>;
  /**
   * Surveys elements of F32, F16 or BF16, at any alignment: adds to `results`. The sums are the same for elements in
   * pieces of any length, as long as these come in order.
   */
  survey(elements: SurveyedElements, level?: ConversionLevel): void;
  /** As `survey`, on the pool, under the terms of `convertAsync` for all arrays. */
  surveyAsync(elements: SurveyedElements): Promise<void>;
  /** Merges elements of F32, F16 or BF16 into one of these. Returns a count as `addProduct`. */
  mergeElements(elements: MergedElements, level?: ConversionLevel): number;
  /** As `mergeElements`, on the pool, under the terms of `convertAsync` for all arrays. */
  mergeElementsAsync(elements: MergedElements): Promise<number>;
  /**
   * Gives a file disk space for its first `byteLength` > 0 bytes, and makes it that long if it is shorter; new bytes
   * read as zeros. `ENOSPC`, `EDQUOT` and `EFBIG` mean that room is lacking, `ENOTSUP` and others that the system or
   * the file system cannot reserve it. Works on a thread of the pool; keep `fd` open until the promise settles.
   */
  allocateAsync(fd: number, byteLength: number): Promise<void>;
  /**
   * Copies up to `byteLength` > 0 bytes from one file to another within the kernel, on a thread of
   * the pool; both descriptors stay open until the promise settles. Resolves with how many bytes; 0
   * at the source's end. `ENOTSUP` where the system cannot, `EXDEV`, `EINVAL` and others where it
   * does not for these two files.
   */
  copyFileRangeAsync(
    sourceFd: number,
    sourcePosition: number,
    targetFd: number,
    targetPosition: number,
    byteLength: number,
  ): Promise<number>;
  /**
   * Copies up to 1 024 ranges, 16 MiB in all, one after the other through a buffer, on a thread of
   * the pool; all descriptors stay open until the promise settles. `ranges` holds descriptor,
   * position and length > 0 of each. Resolves with how many bytes: fewer where a source ends or an
   * error came after some of them. `ENOTSUP` where the system cannot.
   */
  gatherRangesAsync(
    ranges: Float64Array,
    targetFd: number,
    targetPosition: number,
  ): Promise<number>;
  /**
   * Locks a file or a folder for this descriptor until it is closed, without waiting: `EAGAIN` when another
   * descriptor has the lock, in this process or another. The lock is advisory. `ENOLCK`, `EBADF`, `ENOTSUP` and
   * others where the file system has no locks.
   */
  lockFile(fd: number): void;
  /**
   * Exchanges two paths, of one file system, in one step. Both must exist. `ENOTSUP`, `EINVAL`,
   * `ENOSYS` and others where the system or the file system cannot.
   */
  exchangeFiles(path: Uint8Array, otherPath: Uint8Array): void;
  /**
   * Gives the file of a descriptor the access control list of the file at `path`, or removes it when that file has
   * none. Returns whether that file has a list. `ENOTSUP` on systems without such lists.
   */
  copyAccessList(path: Uint8Array, fd: number): boolean;
}

/** A count, 0 without a result, or a failure. */
type NativeOutcome = number | Failure;

type ProductArguments = [
  from: number,
  to: number,
  bytes: Uint8Array,
  output: Uint8Array,
  left: Float64Array,
  right: Float32Array,
  columns: number,
  level: number,
];

type SurveyArguments = [
  kind: number,
  ...inputs: InputArguments,
  rule: Float64Array,
  results: Float64Array,
  level: number,
];

type MergeArguments = [
  to: number,
  ...inputs: InputArguments,
  rules: Float64Array,
  output: Uint8Array,
  level: number,
];

type InputArguments = [dtypes: Uint8Array, first: number, arrays: readonly Uint8Array[]];

/** In the order of `Survey` in `native/merge.h`. */
const SURVEYS: readonly SurveyKind[] = ['products', 'upper', 'lower', 'equal', 'sums'];

/** Results of at least this length are written past the caches, which would keep little of them: 4 MiB. */
const STREAMED_BYTE_LENGTH = 2 ** 22;

/** 1 if an array is part of a long result, else 0. */
function streams(output: Float32Array): number {
  return output.buffer.byteLength >= STREAMED_BYTE_LENGTH ? 1 : 0;
}

/** The addon itself: its functions return a result or a {@link Failure}. */
export interface AddonExports {
  version(): string;
  compensateExternalMemory(): 0;
  uncountBuffers(maxByteLength: number): NativeOutcome;
  externalBuffersAllowed(): boolean;
  descriptorsWork(): boolean;
  truncations(): ArrayBuffer | Failure;
  mapFile(fd: number, byteLength: number, guard: boolean): Mapping | Failure;
  tensorBuffer(mapping: Mapping, byteOffset: number, byteLength: number): ArrayBuffer | Failure;
  readFileState(mapping: Mapping, state: Float64Array): NativeOutcome;
  readBytes(mapping: Mapping, position: number, target: Uint8Array): NativeOutcome;
  populate(mapping: Mapping, byteOffset: number, byteLength: number): Promise<number> | Failure;
  populateRanges(mapping: Mapping, ranges: Float64Array): Promise<number> | Failure;
  adviseRandom(mapping: Mapping): NativeOutcome;
  readRanges(mapping: Mapping, ranges: Float64Array, target: Uint8Array): NativeOutcome;
  readCachedRanges(mapping: Mapping, ranges: Float64Array, target: Uint8Array): NativeOutcome;
  readRangesAsync(
    mapping: Mapping,
    ranges: Float64Array,
    target: Uint8Array,
  ): Promise<number> | Failure;
  residentBytes(mapping: Mapping, byteOffset: number, byteLength: number): NativeOutcome | null;
  hugePages(bytes: Uint8Array): NativeOutcome | null;
  duplicateDescriptor(mapping: Mapping): NativeOutcome;
  closeDescriptor(fd: number): NativeOutcome;
  closeFile(mapping: Mapping): NativeOutcome;
  release(mapping: Mapping): NativeOutcome;
  releaseDropped(): 0;
  detach(mapping: Mapping, buffers: readonly ArrayBuffer[], emptied: number): NativeOutcome;
  convert(dtype: number, bytes: Uint8Array, output: Float32Array, level: number): NativeOutcome;
  convertAsync(
    dtype: number,
    bytes: Uint8Array,
    output: Float32Array,
    level: number,
  ): Promise<number> | Failure;
  cast(
    from: number,
    to: number,
    bytes: Uint8Array,
    output: Uint8Array,
    level: number,
  ): NativeOutcome;
  castAsync(
    from: number,
    to: number,
    bytes: Uint8Array,
    output: Uint8Array,
    level: number,
  ): Promise<number> | Failure;
  dequantizeRows(
    dtype: number,
    bytes: Uint8Array,
    output: Float32Array,
    scales: Float32Array,
    columns: number,
    firstRow: number,
    blockRows: number,
    blockColumns: number,
    gridColumns: number,
    streams: number,
    level: number,
  ): NativeOutcome;
  decodeBlocks(
    type: number,
    bytes: Uint8Array,
    output: Float32Array,
    streams: number,
    level: number,
  ): NativeOutcome;
  addProduct(...args: ProductArguments): NativeOutcome;
  addProductAsync(...args: ProductArguments): Promise<number> | Failure;
  survey(...args: SurveyArguments): NativeOutcome;
  surveyAsync(...args: SurveyArguments): Promise<number> | Failure;
  mergeElements(...args: MergeArguments): NativeOutcome;
  mergeElementsAsync(...args: MergeArguments): Promise<number> | Failure;
  allocateAsync(fd: number, byteLength: number): Promise<number> | Failure;
  copyFileRangeAsync(
    sourceFd: number,
    sourcePosition: number,
    targetFd: number,
    targetPosition: number,
    byteLength: number,
  ): Promise<number> | Failure;
  gatherRangesAsync(
    ranges: Float64Array,
    targetFd: number,
    targetPosition: number,
  ): Promise<number> | Failure;
  lockFile(fd: number): NativeOutcome;
  exchangeFiles(path: Uint8Array, otherPath: Uint8Array): NativeOutcome;
  copyAccessList(path: Uint8Array, fd: number): NativeOutcome;
}

/** The addon with its failures thrown. */
export function bind(exports: AddonExports): Addon {
  const truncations = exports.truncations();
  if (typeof truncations !== 'object') throw failure(truncations, 'truncations', {});
  return {
    truncations: new Uint32Array(truncations),
    mapFile(fd, byteLength, guard, path) {
      const result = exports.mapFile(fd, byteLength, guard);
      if (typeof result === 'object') return result;
      throw failure(result, 'mmap', { fd, byteLength, guard }, path);
    },
    tensorBuffer(mapping, byteOffset, byteLength) {
      const result = exports.tensorBuffer(mapping, byteOffset, byteLength);
      if (typeof result === 'object') return result;
      throw failure(result, 'tensorBuffer', { mapping, byteOffset, byteLength });
    },
    readFileState(mapping, state) {
      countOf(exports.readFileState(mapping, state), 'fstat', { mapping, state });
    },
    readBytes(mapping, position, target) {
      const result = exports.readBytes(mapping, position, target);
      return countOf(result, 'pread', { mapping, position, target });
    },
    async populate(mapping, byteOffset, byteLength) {
      const result = await exports.populate(mapping, byteOffset, byteLength);
      countOf(result, 'madvise', { mapping, byteOffset, byteLength });
    },
    async populateRanges(mapping, ranges) {
      const result = await exports.populateRanges(mapping, ranges);
      countOf(result, 'madvise', { mapping, ranges });
    },
    adviseRandom(mapping) {
      countOf(exports.adviseRandom(mapping), 'madvise', { mapping });
    },
    readRanges(mapping, ranges, target) {
      countOf(exports.readRanges(mapping, ranges, target), 'pread', { mapping, ranges, target });
    },
    readCachedRanges(mapping, ranges, target) {
      const result = exports.readCachedRanges(mapping, ranges, target);
      return countOf(result, 'preadv2', { mapping, ranges, target }) === 1;
    },
    async readRangesAsync(mapping, ranges, target) {
      const result = await exports.readRangesAsync(mapping, ranges, target);
      countOf(result, 'pread', { mapping, ranges, target });
    },
    residentBytes(mapping, byteOffset, byteLength) {
      const result = exports.residentBytes(mapping, byteOffset, byteLength);
      if (result === null) return null;
      return countOf(result, 'mincore', { mapping, byteOffset, byteLength });
    },
    hugePages(bytes) {
      const result = exports.hugePages(bytes);
      return result === null ? null : countOf(result, 'madvise', { bytes });
    },
    duplicateDescriptor(mapping) {
      return countOf(exports.duplicateDescriptor(mapping), 'fcntl', { mapping });
    },
    closeDescriptor(fd) {
      countOf(exports.closeDescriptor(fd), 'close', { fd });
    },
    closeFile(mapping) {
      countOf(exports.closeFile(mapping), 'close', { mapping });
    },
    release(mapping) {
      countOf(exports.release(mapping), 'munmap', { mapping });
    },
    releaseDropped() {
      exports.releaseDropped();
    },
    detach(mapping, buffers, emptied = 0) {
      const result = exports.detach(mapping, buffers, emptied);
      countOf(result, 'mmap', { mapping, buffers, emptied });
    },
    convert(dtype, bytes, output, level = 'best') {
      const code = DTYPE_NAMES.indexOf(dtype);
      const result = exports.convert(code, bytes, output, LEVELS.indexOf(level));
      countOf(result, 'convert', { dtype, bytes, output, level });
    },
    async convertAsync(dtype, bytes, output) {
      const code = DTYPE_NAMES.indexOf(dtype);
      const result = await exports.convertAsync(code, bytes, output, LEVELS.indexOf('best'));
      countOf(result, 'convert', { dtype, bytes, output });
    },
    cast(from, to, bytes, output, level = 'best') {
      const [fromCode, toCode] = [DTYPE_NAMES.indexOf(from), DTYPE_NAMES.indexOf(to)];
      const result = exports.cast(fromCode, toCode, bytes, output, LEVELS.indexOf(level));
      return countOf(result, 'cast', { from, to, bytes, output, level });
    },
    async castAsync(from, to, bytes, output) {
      const [fromCode, toCode] = [DTYPE_NAMES.indexOf(from), DTYPE_NAMES.indexOf(to)];
      const best = LEVELS.indexOf('best');
      const result = await exports.castAsync(fromCode, toCode, bytes, output, best);
      return countOf(result, 'cast', { from, to, bytes, output });
    },
    dequantizeRows(rows, level = 'best') {
      const { dtype, bytes, output, scales, columns, firstRow } = rows;
      const { blockRows, blockColumns, gridColumns } = rows;
      const code = DTYPE_NAMES.indexOf(dtype);
      const grid = [columns, firstRow, blockRows, blockColumns, gridColumns] as const;
      const result = exports.dequantizeRows(
        ...([code, bytes, output, scales] as const),
        ...grid,
        ...([streams(output), LEVELS.indexOf(level)] as const),
      );
      countOf(result, 'dequantizeRows', { ...rows, level });
    },
    decodeBlocks(type, bytes, output, level = 'best') {
      const code = NATIVE_BLOCK_TYPES.indexOf(type);
      const result = exports.decodeBlocks(
        code,
        bytes,
        output,
        streams(output),
        LEVELS.indexOf(level),
      );
      countOf(result, 'decodeBlocks', { type, bytes, output, level });
    },
    addProduct(rows, level = 'best') {
      const result = exports.addProduct(...productArguments(rows, level));
      return countOf(result, 'addProduct', level === 'best' ? rows : { ...rows, level });
    },
    async addProductAsync(rows) {
      const result = await exports.addProductAsync(...productArguments(rows, 'best'));
      return countOf(result, 'addProduct', { ...rows });
    },
    survey(elements, level = 'best') {
      const result = exports.survey(...surveyArguments(elements, level));
      countOf(result, 'survey', { ...elements, level });
    },
    async surveyAsync(elements) {
      const result = await exports.surveyAsync(...surveyArguments(elements, 'best'));
      countOf(result, 'survey', { ...elements });
    },
    mergeElements(elements, level = 'best') {
      const result = exports.mergeElements(...mergeArguments(elements, level));
      return countOf(result, 'mergeElements', level === 'best' ? elements : { ...elements, level });
    },
    async mergeElementsAsync(elements) {
      const result = await exports.mergeElementsAsync(...mergeArguments(elements, 'best'));
      return countOf(result, 'mergeElements', { ...elements });
    },
    async allocateAsync(fd, byteLength) {
      countOf(await exports.allocateAsync(fd, byteLength), 'fallocate', { fd, byteLength });
    },
    async copyFileRangeAsync(...args) {
      const [sourceFd, sourcePosition, targetFd, targetPosition, byteLength] = args;
      const result = await exports.copyFileRangeAsync(...args);
      const named = { sourceFd, sourcePosition, targetFd, targetPosition, byteLength };
      return countOf(result, 'copy_file_range', named);
    },
    async gatherRangesAsync(ranges, targetFd, targetPosition) {
      const result = await exports.gatherRangesAsync(ranges, targetFd, targetPosition);
      return countOf(result, 'pwrite', { ranges, targetFd, targetPosition });
    },
    lockFile(fd) {
      countOf(exports.lockFile(fd), 'flock', { fd });
    },
    exchangeFiles(path, otherPath) {
      countOf(exports.exchangeFiles(path, otherPath), 'renameat2', { path, otherPath });
    },
    copyAccessList(path, fd) {
      return countOf(exports.copyAccessList(path, fd), 'fsetxattr', { path, fd }) === 1;
    },
  };
}

function productArguments(rows: ProductRows, level: ConversionLevel): ProductArguments {
  const { from, to, bytes, output, left, right, columns } = rows;
  const [fromCode, toCode] = [DTYPE_NAMES.indexOf(from), DTYPE_NAMES.indexOf(to)];
  return [fromCode, toCode, bytes, output, left, right, columns, LEVELS.indexOf(level)];
}

function inputArguments({ from, bytes, first }: InputElements): InputArguments {
  const codes = new Uint8Array(from.length);
  for (let i = 0; i < codes.length; i++) codes[i] = DTYPE_NAMES.indexOf(from[i] as Dtype);
  return [codes, first, bytes];
}

function surveyArguments(elements: SurveyedElements, level: ConversionLevel): SurveyArguments {
  const { kind, rule, results } = elements;
  const inputs = inputArguments(elements);
  return [SURVEYS.indexOf(kind), ...inputs, rule, results, LEVELS.indexOf(level)];
}

function mergeArguments(elements: MergedElements, level: ConversionLevel): MergeArguments {
  const { to, rules, output } = elements;
  const inputs = inputArguments(elements);
  return [DTYPE_NAMES.indexOf(to), ...inputs, rules, output, LEVELS.indexOf(level)];
}

/** The count of an outcome; throws a failure as an error. */
function countOf(result: NativeOutcome, syscall: string, args: object): number {
  if (typeof result === 'number' && result >= 0) return result;
  throw failure(result, syscall, args as Record<string, unknown>);
}
