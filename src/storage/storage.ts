/**
 * Where the bytes of an open file come from. Three kinds behind one interface: a mapping, positioned
 * reads, and memory that the caller already has. A storage knows positions in the file (bytes from
 * its start), never tensors.
 */

import type { FileChangedError } from '../errors/errors.js';

/** How a file's bytes are reached: mapped, read on demand, or given by the caller. */
export type StorageKind = 'mmap' | 'read' | 'memory';

/** A place in memory: `byteOffset` bytes into `buffer`. */
export interface BufferRange {
  readonly buffer: ArrayBuffer;
  readonly byteOffset: number;
}

/** A descriptor of a storage's file that stays open until it is given back, also after `close`. */
export interface LentDescriptor {
  readonly fd: number;
  /** To be called once, when nothing reads from it any more. */
  giveBack(): void;
}

/** Bytes of one open file. Methods throw `FileClosedError` after `close`. */
export interface Storage {
  readonly kind: StorageKind;
  /** The file, as named in messages. */
  readonly path: string | undefined;
  /** Length of the file in bytes, as it was at open. */
  readonly byteLength: number;
  /** Longest buffer this runtime can make, in bytes. */
  readonly maxBufferByteLength: number;
  /** False once the file was found cut short or rewritten; never true again. */
  readonly ok: boolean;
  /** True after `close`. */
  readonly closed: boolean;
  /** True when reaching for more bytes than are needed costs nothing. */
  readonly zeroCopy: boolean;

  /** Offset from an aligned address at which a buffer made for `position` begins, in bytes. */
  addressOf(position: number): number;

  /**
   * The bytes [begin, end), at least one, to be kept and handed out by the caller: a view for `mmap`
   * and `memory`, a fresh copy for `read`. They live on after `close`, unless it detaches them.
   * `filled` is a buffer that the caller of a `read` storage has read them into already.
   */
  bytes(begin: number, end: number, filled?: ArrayBuffer): BufferRange;

  /** As `bytes`, for passing use: the storage itself does not keep them alive. */
  window(begin: number, end: number): Uint8Array<ArrayBuffer>;

  /**
   * Brings the pages of [begin, end) into memory off the event loop; rejects as `verify` throws, and
   * with `EIO` when a page cannot be read. Only storages whose bytes are pages of the file have it.
   */
  populate?(begin: number, end: number): Promise<void>;

  /** A descriptor for positioned reads. Only storages over a file have it. */
  lend?(): LentDescriptor;

  /** How many of the bytes [begin, end) are in memory; null where that cannot be known. */
  residentBytes(begin: number, end: number): number | null;

  /**
   * As `window`, for work on other threads: memory that nobody but the caller can detach, not even
   * a detaching `close`, and so must never be handed out. Undefined where all memory is somebody
   * else's. Whether the file was still good is what `verify` says afterwards.
   */
  hold(begin: number, end: number): Uint8Array<ArrayBuffer> | undefined;

  /** Throws {@link FileChangedError} when the file is no longer the one whose header was checked. */
  verify(): void;

  /** Lets go of the file. With `detach`, buffers handed out become empty and memory is free at once. */
  close(detach: boolean): void;
}

/** A storage over a file, whose bytes can also be had by reading that. */
export interface LendingStorage extends Storage {
  lend(): LentDescriptor;
}

/** Whether a storage is over a file. */
export function isLending(storage: Storage): storage is LendingStorage {
  return storage.lend !== undefined;
}
