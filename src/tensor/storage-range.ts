/**
 * The bytes of a tensor and its contiguous slices: a range of a storage, which gets a buffer on
 * first use.
 */

import { type ErrorContext, SafetensorsError } from '../errors/errors.js';
import { allocate, withTensor } from '../errors/out-of-memory.js';
import { type AsyncFill, type Fill, ViewStorage } from './storage/computed.js';
import { type DeclaredDigest, declaredDigest } from './storage/declared-digests.js';
import {
  type BufferRange,
  isLeasable,
  type LeasableStorage,
  type Storage,
} from './storage/storage.js';

/** Rows of up to this many bytes are read on this thread where they are in the page cache: about 10 us of work. */
const CACHED_READ_BYTE_LENGTH = 2 ** 16;

/**
 * Throws when the runtime cannot make a buffer of that many bytes. The error names `tensor`; `advice` says
 * what to use instead.
 */
export function requireBuffer(
  { maxBufferByteLength, path }: Pick<Storage, 'maxBufferByteLength' | 'path'>,
  tensor: string,
  byteLength: number,
  advice = 'chunks() or slices',
): void {
  if (byteLength <= maxBufferByteLength) return;
  throw new SafetensorsError(
    'SAFETENSORS_TENSOR_TOO_LARGE',
    `${byteLength} bytes do not fit into one buffer of this runtime, which holds at most ` +
      `${maxBufferByteLength}; use ${advice}`,
    { path, tensor },
  );
}

/**
 * The bytes [begin, end) of a storage that belong to one tensor. It is a reader of the storage, so the bytes
 * outlive the close of the file.
 */
export class StorageRange {
  readonly #storage: Storage;
  readonly #tensor: string;
  readonly #begin: number;
  readonly #end: number;
  readonly #whole: StorageRange;
  #memory: BufferRange | undefined;
  /** Used on the whole range only: over a mapping, the memory of a part is memory of the whole. */
  #isExposed = false;
  /** Set while the range is a reader of the storage. */
  #isReader = true;

  /**
   * `whole` is the range that contains this part. The storage keeps the buffer of a whole tensor, the same on
   * every call; it keeps no buffers of parts.
   */
  constructor(storage: Storage, tensor: string, begin: number, end: number, whole?: StorageRange) {
    this.#storage = storage;
    this.#tensor = tensor;
    this.#begin = begin;
    this.#end = end;
    this.#whole = whole === undefined ? this : whole.#whole;
    storage.addReader();
  }

  /** The file, as named in messages. */
  get path(): string | undefined {
    return this.#storage.path;
  }

  /** The tensor's name. */
  get name(): string {
    return this.#tensor;
  }

  /** The file and the tensor, for errors. */
  get context(): ErrorContext {
    return { path: this.#storage.path, tensor: this.#tensor };
  }

  /** Distance of the first byte from an aligned address, in bytes. */
  get address(): number {
    return this.#storage.addressOf(this.#begin);
  }

  /** Whether slices should share this range's buffer: it exists, or making it is possible and free. */
  get isShareable(): boolean {
    if (this.#end - this.#begin > this.#storage.maxBufferByteLength) return false;
    return this.#storage.zeroCopy || this.#resolved() !== undefined;
  }

  /** Position of the first byte in the file. */
  get position(): number {
    return this.#begin;
  }

  /** Length in bytes. */
  get byteLength(): number {
    return this.#end - this.#begin;
  }

  /** Whether a buffer holds the bytes, so that `resolve` reads nothing. */
  get isResolved(): boolean {
    return this.#resolved() !== undefined;
  }

  /** Whether the bytes are out of reach: the file was closed with `detach`. */
  get isGone(): boolean {
    return this.#storage.ended && !this.isResolved;
  }

  /**
   * The storage of a file that still has exactly these bytes, because no writable memory was exposed;
   * undefined otherwise, and once the descriptor is closed. Windows from a copying storage don't count:
   * writing to one changes nothing.
   */
  get untouchedFile(): LeasableStorage | undefined {
    const storage = this.#storage;
    return this.#isTouched || !isLeasable(storage) || !storage.canLease ? undefined : storage;
  }

  /**
   * The digest that the file declares for these bytes; undefined for a part of a tensor, and for bytes in memory, which
   * the caller may have changed.
   *
   * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH` for malformed digests
   */
  get declaredDigest(): DeclaredDigest | undefined {
    const digest = isLeasable(this.#storage) ? this.headerDigest : undefined;
    return digest !== undefined && this.#isTouched
      ? { ...digest, writableFrom: this.#begin }
      : digest;
  }

  /** As `declaredDigest`, also of a file in memory. */
  get headerDigest(): DeclaredDigest | undefined {
    return declaredDigest(this.#storage, this.#tensor, this.#begin, this.#end);
  }

  get #isTouched(): boolean {
    return this.#storage.zeroCopy ? this.#whole.#isExposed : this.isResolved;
  }

  /** Whether values should be computed window by window, since no buffer holds the bytes. */
  get isComputed(): boolean {
    return this.#storage.isComputed === true && !this.isResolved;
  }

  /**
   * Returns the range of a tensor that `fill` computes, which counts as a reader of the storage of this one.
   *
   * @param fillAsync computes the same on other threads, into memory of writers
   */
  computed(tensor: string, byteLength: number, fill: Fill, fillAsync?: AsyncFill): StorageRange {
    const source = { storage: this.#storage, begin: this.#begin, byteLength: this.byteLength };
    const storage = new ViewStorage(byteLength, source, fill, fillAsync);
    return new StorageRange(storage, tensor, 0, byteLength);
  }

  /** Returns a range over the same bytes of the same storage, without a buffer. */
  again(): StorageRange {
    return new StorageRange(this.#storage, this.#tensor, this.#begin, this.#end);
  }

  /** Computes bytes into the memory of a writer on other threads; undefined for other storages. */
  get fillAsync(): AsyncFill | undefined {
    const storage = this.#storage;
    if (!this.isComputed || !(storage instanceof ViewStorage)) return undefined;
    const { fillAsync: fill } = storage;
    return fill && ((target, position, signal) => fill(target, this.#begin + position, signal));
  }

  /** The storage whose mapping holds the bytes, so that changes of the file show in them. */
  get mappedFile(): LeasableStorage | undefined {
    const storage = this.#storage;
    return storage.kind === 'mmap' && isLeasable(storage) ? storage : undefined;
  }

  /**
   * The range that owns the memory: the whole tensor's, of which parts are views; this range when a copying
   * storage has read it separately.
   */
  get owner(): StorageRange {
    return this.#storage.zeroCopy || !this.isResolved ? this.#whole : this;
  }

  /** Takes ownership of a buffer with the bytes; ignores it when the range has got a buffer meanwhile. */
  adopt(buffer: ArrayBuffer): void {
    if (!this.isResolved) this.#settle(this.#storage.bytes(this.#begin, this.#end, buffer));
  }

  /** Whether the bytes, or some of them, are known to be in the memory of this array. */
  isIn({ buffer, byteOffset, byteLength }: ArrayBufferView): boolean {
    const isGiven = this.#storage.kind === 'memory';
    return [this, this.#whole].some((range) => {
      const memory = isGiven ? this.#storage.bytes(range.#begin, range.#end) : range.#memory;
      if (memory?.buffer !== buffer) return false;
      const begin = memory.byteOffset + this.#begin - range.#begin;
      return byteOffset < begin + this.byteLength && begin < byteOffset + byteLength;
    });
  }

  /** The place of the bytes in memory; the same on every call until the buffer is detached. */
  resolve(): BufferRange {
    this.#whole.#isExposed = true;
    const resolved = this.#resolved();
    if (resolved !== undefined) return resolved;
    const byteLength = this.#end - this.#begin;
    this.requireBufferOf(byteLength);
    return this.#settle(this.#make(byteLength));
  }

  #settle(memory: BufferRange): BufferRange {
    this.#memory = memory;
    // A mapping will give further buffers over the same bytes for passing use.
    if (!this.#storage.zeroCopy) this.endReading();
    return memory;
  }

  /** Stops being a reader: no further bytes will be requested. */
  endReading(): void {
    if (this.#isReader) this.#storage.removeReader();
    this.#isReader = false;
  }

  /** Returns all bytes of the range, if slices should share its buffer. */
  shared(): Uint8Array<ArrayBuffer> | undefined {
    if (!this.isShareable) return undefined;
    const { buffer, byteOffset } = this.resolve();
    return new Uint8Array(buffer, byteOffset, this.byteLength);
  }

  /** The bytes [begin, end) of the range in its buffer, which it gets on first use. */
  memory(begin: number, end: number): Uint8Array<ArrayBuffer> {
    const { buffer, byteOffset } = this.resolve();
    return new Uint8Array(buffer, byteOffset + begin, end - begin);
  }

  /**
   * As above if slices should share its buffer, else a window.
   *
   * @throws SafetensorsError `SAFETENSORS_TENSOR_TOO_LARGE` for a window that no buffer can hold
   */
  sharedOrWindow(begin: number, end: number): Uint8Array<ArrayBuffer> {
    if (this.isShareable) return this.memory(begin, end);
    this.requireBufferOf(end - begin);
    return this.window(begin, end);
  }

  /**
   * The bytes [begin, end) of the range for passing use. Over a mapping they get a separate buffer,
   * since posting a view to a worker clones its whole buffer.
   */
  window(begin: number, end: number): Uint8Array<ArrayBuffer> {
    this.#whole.#isExposed = true;
    const storage = this.#storage;
    const resolved = storage.zeroCopy && !storage.ended ? undefined : this.#resolved();
    if (resolved === undefined) {
      return this.#named(end - begin, () => storage.window(this.#begin + begin, this.#begin + end));
    }
    const { buffer, byteOffset } = resolved;
    return new Uint8Array(buffer, byteOffset + begin, end - begin);
  }

  /**
   * Brings the pages of up to 1 024 parts into memory, off the event loop. `ranges` holds begin and length
   * of each, and is overwritten. Does nothing for bytes that are in memory anyway.
   */
  async populate(ranges: Float64Array): Promise<void> {
    const storage = this.#storage;
    if (storage.populateRanges === undefined || storage.ended) return;
    try {
      await storage.populateRanges(this.#inStorage(ranges));
    } catch (error) {
      // Memory that cannot be detached stays when the file is closed meanwhile.
      if (!storage.ended || !this.isResolved) throw error;
    }
  }

  /**
   * Whether `readRanges` gives the bytes: the file is mapped, and no memory was exposed to which the caller may
   * have written.
   */
  get hasRangeReads(): boolean {
    return this.untouchedFile?.readRanges !== undefined;
  }

  /**
   * Reads up to 1 024 parts into `target`, one after the other. `ranges` holds begin and length of each, and is
   * overwritten. Call `verifyOften` before and `verify` after.
   */
  readRanges(ranges: Float64Array, target: Uint8Array): void {
    this.#storage.readRanges?.(this.#inStorage(ranges), target);
  }

  /**
   * As above, without waiting for the disk on this thread. A few rows that are in the page cache are read at once:
   * that takes a tenth of the time of a call on the thread pool. No other code may reach the memory of `target`.
   */
  async readRangesAsync(ranges: Float64Array, target: Uint8Array): Promise<void> {
    const inStorage = this.#inStorage(ranges);
    if (target.length <= CACHED_READ_BYTE_LENGTH) {
      if (this.#storage.readCachedRanges?.(inStorage, target) === true) return;
    }
    await this.#storage.readRangesAsync?.(inStorage, target);
  }

  /** Makes positions in this range positions in the storage, in place. */
  #inStorage(ranges: Float64Array): Float64Array {
    for (let i = 0; i < ranges.length; i += 2) ranges[i] = (ranges[i] as number) + this.#begin;
    return ranges;
  }

  /**
   * Returns the bytes [begin, end), at least one, for work on other threads: memory that no other code can
   * detach. Undefined where that takes a copy: after `parse`, and for bytes that `storage: 'read'` has already
   * read.
   */
  hold(begin: number, end: number): Uint8Array<ArrayBuffer> | undefined {
    if (!this.isHoldable) return undefined;
    return this.#named(end - begin, () =>
      this.#storage.hold(this.#begin + begin, this.#begin + end),
    );
  }

  /** Whether `hold` gives memory. */
  get isHoldable(): boolean {
    const { kind, ended } = this.#storage;
    return kind !== 'memory' && !(this.#resolved() !== undefined && (ended || kind === 'read'));
  }

  /**
   * Fills `target` with the bytes from `begin` on. A copying storage reads bytes that it does not have yet right
   * into it. Call `verify` before and after.
   */
  copyTo(target: Uint8Array, begin: number): void {
    const storage = this.#storage;
    const end = begin + target.length;
    if (begin === end) return;
    const memory = this.shared();
    if (memory !== undefined) {
      target.set(memory.subarray(begin, end));
    } else if (storage.readInto !== undefined) {
      storage.readInto(target, this.#begin + begin);
    } else {
      target.set(this.window(begin, end));
    }
  }

  /**
   * Throws when the file was detached or changed, because a copy of the bytes may then be wrong. Copies made
   * by a reading storage are not checked once the file is closed.
   */
  verify(): void {
    if (this.#isVerified()) this.#storage.verify();
  }

  /** As `verify`, before the bytes are copied: asks the system at most once a millisecond. */
  verifyOften(): void {
    if (this.#isVerified()) this.#storage.verifyOften();
  }

  #isVerified(): boolean {
    const { ended, closed, zeroCopy } = this.#storage;
    const isOwn = ended || (closed && !zeroCopy);
    return !isOwn || this.#resolved() === undefined;
  }

  /** Returns a part of this range, `byteLength` bytes from `begin` on, with a separate buffer. */
  part(begin: number, byteLength: number): StorageRange {
    const start = this.#begin + begin;
    return new StorageRange(this.#storage, this.#tensor, start, start + byteLength, this);
  }

  /**
   * Returns a new array for a copy. Throws when the runtime cannot make a buffer of that length, and when
   * memory runs out.
   */
  allocate(length: number): Uint8Array<ArrayBuffer> {
    requireBuffer(this.#storage, this.#tensor, length);
    return allocate(Uint8Array, length, this.context);
  }

  /** As above, for float32 values. */
  allocateFloats(length: number): Float32Array<ArrayBuffer> {
    requireBuffer(this.#storage, this.#tensor, length * Float32Array.BYTES_PER_ELEMENT);
    return allocate(Float32Array, length, this.context);
  }

  /**
   * Throws when the runtime cannot make a buffer of that many bytes. Checked before calling the engine: Node 20
   * runs the finalizer of an external buffer that it then refuses.
   */
  requireBufferOf(byteLength: number): void {
    requireBuffer(this.#storage, this.#tensor, byteLength);
  }

  /** Longest buffer this runtime can make, in bytes. */
  get maxBufferByteLength(): number {
    return this.#storage.maxBufferByteLength;
  }

  #make(byteLength: number): BufferRange {
    if (byteLength === 0) {
      this.#storage.verify();
      // Never an empty external buffer: engines take it for a detached one.
      return { buffer: new ArrayBuffer(0), byteOffset: 0 };
    }
    return this.#named(byteLength, () =>
      this.#whole !== this
        ? this.#storage.window(this.#begin, this.#end)
        : this.#storage.bytes(this.#begin, this.#end),
    );
  }

  /** Calls the storage, and names the tensor (which storages do not know) when memory runs out. */
  #named<Memory>(byteLength: number, take: () => Memory): Memory {
    try {
      return take();
    } catch (error) {
      throw withTensor(error, byteLength, this.context);
    }
  }

  #resolved(): BufferRange | undefined {
    const range = this.#memory;
    // Detached by close({ detach: true }) or transferred by its owner.
    return range !== undefined && range.buffer.byteLength === 0 && this.#end > this.#begin
      ? undefined
      : range;
  }
}
