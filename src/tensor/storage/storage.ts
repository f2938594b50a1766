/**
 * Where the bytes of an open file come from: a mapping, positioned reads, or memory of the caller,
 * as one interface. A storage knows positions (bytes from the start of the file),
 * never tensors.
 */

import { type FileChangedError, FileClosedError } from '../../errors/errors.js';

/** How a file's bytes are reached: mapped, read on demand, or given by the caller. */
export type StorageKind = 'mmap' | 'read' | 'memory';

/** A place in memory: `byteOffset` bytes into `buffer`. */
export interface BufferRange {
  readonly buffer: ArrayBuffer;
  readonly byteOffset: number;
}

/** A lease of the descriptor of a storage's file, which stays open until `release`, even after `close`. */
export interface DescriptorLease {
  readonly fd: number;
  /** Call it once, when nothing reads from the descriptor any more. */
  release(): void;
}

/**
 * Bytes of one open file. `close` ends all calls on the file itself; tensors that were exposed are readers,
 * which go on until they are collected, or until `ended`. After that, methods throw `FileClosedError`.
 */
export interface Storage {
  readonly kind: StorageKind;
  /** The file's name in messages. */
  readonly path: string | undefined;
  /** Length of the file in bytes, as it was at open. */
  readonly byteLength: number;
  /** Longest buffer this runtime can make, in bytes. */
  readonly maxBufferByteLength: number;
  /** False once the file was found truncated or rewritten; never true again. */
  readonly ok: boolean;
  /** True after `close`: see {@link requireOpen}. */
  readonly closed: boolean;
  /** True when no bytes can be read any more: after a detaching `close`, or a `close` without readers. */
  readonly ended: boolean;
  /** True when longer ranges than needed are free. */
  readonly zeroCopy: boolean;
  /** True when every use computes the bytes: conversions then compute them window by window, without a buffer. */
  readonly isComputed?: boolean;

  /** Closes the descriptor of an open file that works without it, too. Returns whether it closed it. */
  reclaimDescriptor?(): boolean;

  /** Adds a reader, which may ask for bytes at any time, even after `close`: a tensor, or a part of one. */
  addReader(): void;

  /** Removes a reader that has got its bytes from a copying storage. */
  removeReader(): void;

  /** Distance from an aligned address at which a buffer made for `position` begins, in bytes. */
  addressOf(position: number): number;

  /**
   * The bytes [begin, end), at least one, which the caller may keep and expose: a view for `mmap`
   * and `memory`, a new copy for `read`. They stay valid until `close` detaches them.
   * `filled` is a buffer into which the caller of a `read` storage has read them already.
   */
  bytes(begin: number, end: number, filled?: ArrayBuffer): BufferRange;

  /** As `bytes`, for passing use: the storage does not keep the buffer alive. */
  window(begin: number, end: number): Uint8Array<ArrayBuffer>;

  /**
   * Fills `target` with the bytes from `position` on, without looking for changes: call `verify` before and
   * after. Only copying storages have it.
   */
  readInto?(target: Uint8Array, position: number): void;

  /**
   * Brings the pages of [begin, end) into memory, off the event loop. Rejects with the errors of `verify`,
   * and with `EIO` when a page cannot be read. Only mapped storages have it.
   */
  populate?(begin: number, end: number): Promise<void>;

  /**
   * The same for up to 1 024 ranges, which the disk reads together. `ranges` holds begin and length > 0
   * of each.
   */
  populateRanges?(ranges: Float64Array): Promise<void>;

  /**
   * Reads up to 1 024 ranges into `target`, one after the other; `ranges` as above, `target` exactly as long. The
   * bytes are the file's: call it only while no memory was exposed to which the caller may have written. It does
   * not look for changes: call `verifyOften` before and `verify` after. Only mapped storages have it, since a page
   * fault there makes the kernel read megabytes around the page.
   */
  readRanges?(ranges: Float64Array, target: Uint8Array): void;

  /**
   * As above, if all ranges are in the page cache. Returns false where one is not, or the system cannot tell; the
   * content of `target` is undefined then.
   */
  readCachedRanges?(ranges: Float64Array, target: Uint8Array): boolean;

  /** As `readRanges`, off the event loop. No other code may reach the memory of `target`. */
  readRangesAsync?(ranges: Float64Array, target: Uint8Array): Promise<void>;

  /** Acquires a descriptor for positioned reads. Only storages over a file have it; see `canLease`. */
  acquireDescriptor?(): DescriptorLease;

  /** Returns how many of the bytes [begin, end) are in memory; null when that is unknown. */
  residentBytes(begin: number, end: number): number | null;

  /**
   * As `window`, for work on other threads: memory that only the caller can detach, not even a detaching
   * `close`. Never hand it out. Undefined when the memory is not the storage's own. Call `verify` afterwards
   * to learn whether the file was still good.
   */
  hold(begin: number, end: number): Uint8Array<ArrayBuffer> | undefined;

  /**
   * Throws {@link FileChangedError} when the file is no longer the one whose header was checked. After the close
   * of a mapped file it reports only changes found by the truncation guard or by `close`.
   */
  verify(): void;

  /**
   * As `verify`, for calls that only expose: asks the system at most once a millisecond. Changes that the
   * truncation guard or `verify` found are reported at once.
   */
  verifyOften(): void;

  /**
   * Ends calls on the file; only the first call counts. Frees whatever the readers don't need: the descriptor of a
   * mapped file, and everything without readers. With `detach`, empties all buffers exposed and frees
   * everything at once.
   */
  close(detach: boolean): void;
}

/** A storage over a file, whose bytes can also be read by a descriptor. */
export interface LeasableStorage extends Storage {
  /** Whether the descriptor is still open. */
  readonly canLease: boolean;
  acquireDescriptor(): DescriptorLease;
}

/** Whether a storage is over a file. */
export function isLeasable(storage: Storage): storage is LeasableStorage {
  return storage.acquireDescriptor !== undefined;
}

/** Throws FileClosedError after `close`, for calls on the file rather than on a tensor. */
export function requireOpen({ closed, path }: Pick<Storage, 'closed' | 'path'>): void {
  if (closed) throw new FileClosedError({ path });
}

/** As `verify`, for calls on the file. */
export function verifyOpen(storage: Storage): void {
  requireOpen(storage);
  storage.verify();
}
