/** A file mapped copy-on-write: every buffer is a view of the mapping; opening reads nothing. */

import { resolve } from 'node:path';
import { FileChangedError } from '../../errors/errors.js';
import { emptyBuffers } from '../../tensor/storage/empty-buffers.js';
import { type DescriptorLease, requireOpen } from '../../tensor/storage/storage.js';
import { immediate, runSync, type Work } from '../../work/work.js';
import type { Addon, Mapping } from '../addon/load.js';
import { retryHere } from '../io/dropped-files.js';
import { closeFile, closeQuietly, IS_DENO } from '../io/file-calls.js';
import {
  type OpenedFile,
  openRegularFile,
  type ReadBytes,
  readBytesOf,
} from '../io/opened-file.js';
import { type FileIdentity, isSameFile, statsOfFile } from '../io/reclaimable-descriptors.js';
import { namingFile } from '../io/system-errors.js';
import { FileBackedStorage, type FileState } from './file-backed.js';

/** Slots of the state that the addon writes. */
const SIZE = 0;
const SECONDS = 1;
const NANOSECONDS = 2;
const TRUNCATED = 3;

const SECOND_NS = 1_000_000_000n;
const MILLISECOND_NS = 1_000_000n;

/** Splits a time into whole seconds and nanoseconds, as the addon has them. */
function splitTime(timeNs: bigint): [seconds: number, nanoseconds: number] {
  // The remainder of a time before 1970 is negative.
  const nanoseconds = ((timeNs % SECOND_NS) + SECOND_NS) % SECOND_NS;
  return [Number((timeNs - nanoseconds) / SECOND_NS), Number(nanoseconds)];
}

/** Closes a duplicate that was only read from. */
function releaseDuplicate(addon: Addon, fd: number): void {
  try {
    addon.closeDescriptor(fd);
  } catch {
    // The system has freed the number.
  }
}

/** Owns a mapping, which in turn owns a descriptor until the file is closed. */
export class MappedStorage extends FileBackedStorage {
  readonly kind = 'mmap';
  readonly zeroCopy = true;
  protected readonly read: ReadBytes = (target, position) =>
    this.#reclaimedPath === undefined
      ? immediate(() => this.#named(() => this.#addon.readBytes(this.#mapping, position, target)))
      : this.#readAgain(target, position);
  readonly #addon: Addon;
  readonly #mapping: Mapping;
  readonly #state = new Float64Array(4);
  // Its label leads to no file.
  readonly #isBorrowed: boolean;
  readonly #identity: FileIdentity | undefined;
  /** The absolute path of the file after its descriptor was reclaimed. */
  #reclaimedPath: string | undefined;
  #truncations = 0;
  #seconds: number;
  #nanoseconds: number;

  /**
   * Takes ownership of a mapping of the file; the descriptor stays the caller's. `start` is all bytes
   * before the tensor data.
   */
  constructor(file: OpenedFile, start: Uint8Array, addon: Addon, mapping: Mapping) {
    super(file, start);
    this.#addon = addon;
    this.#mapping = mapping;
    this.#isBorrowed = file.borrowed !== undefined;
    this.#identity = file.identity;
    [this.#seconds, this.#nanoseconds] = splitTime(file.mtimeNs);
  }

  /** A mapping begins at a page: the position alone decides. */
  addressOf(position: number): number {
    return position;
  }

  populate(begin: number, end: number): Promise<void> {
    return this.#onPool(() => this.#addon.populate(this.#mapping, begin, end - begin));
  }

  populateRanges(ranges: Float64Array): Promise<void> {
    return this.#onPool(() => this.#addon.populateRanges(this.#mapping, ranges));
  }

  readRanges(ranges: Float64Array, target: Uint8Array): void {
    this.#named(() => this.#addon.readRanges(this.#mapping, ranges, target));
  }

  readCachedRanges(ranges: Float64Array, target: Uint8Array): boolean {
    return this.#named(() => this.#addon.readCachedRanges(this.#mapping, ranges, target));
  }

  readRangesAsync(ranges: Float64Array, target: Uint8Array): Promise<void> {
    return this.#onPool(() => this.#addon.readRangesAsync(this.#mapping, ranges, target));
  }

  get canLease(): boolean {
    return !this.closed && !(this.#isBorrowed && IS_DENO);
  }

  acquireDescriptor(): DescriptorLease {
    requireOpen(this);
    const addon = this.#addon;
    const fd = IS_DENO ? undefined : retryHere(() => this.#duplicate());
    return fd === undefined
      ? this.#openAgain()
      : { fd, release: () => releaseDuplicate(addon, fd) };
  }

  /** Undefined after the descriptor was reclaimed, perhaps by the last attempt. */
  #duplicate(): number | undefined {
    if (this.#reclaimedPath !== undefined) return undefined;
    return this.#named(() => this.#addon.duplicateDescriptor(this.#mapping));
  }

  /** Opens the path, which must still lead to the mapped file. */
  #openAgain(): DescriptorLease {
    this.verify();
    const path = this.#reclaimedPath ?? this.path;
    const opened = runSync(openRegularFile(path, this.path));
    const { fd, byteLength, mtimeNs } = opened;
    const difference = mtimeNs - BigInt(this.#seconds) * SECOND_NS - BigInt(this.#nanoseconds);
    // Deno knows milliseconds.
    const isSameTime = difference > -MILLISECOND_NS && difference < MILLISECOND_NS;
    if (byteLength === this.byteLength && isSameTime && this.#isSameFile(opened)) {
      return { fd, release: () => closeQuietly(fd) };
    }
    closeQuietly(fd);
    throw new FileChangedError(
      'another file has replaced the open one, whose descriptor is closed; open it again',
      { path: this.path },
    );
  }

  #isSameFile({ identity }: Pick<OpenedFile, 'identity'>): boolean {
    if (this.#identity === undefined || identity === undefined) return true;
    return isSameFile(identity, this.#identity);
  }

  /** Reads through a new descriptor. */
  *#readAgain(target: Uint8Array, position: number): Work<number> {
    const { path } = this;
    const opened = yield* openRegularFile(this.#reclaimedPath ?? path, path);
    try {
      if (this.#isSameFile(opened)) return yield* readBytesOf(opened)(target, position);
    } finally {
      yield* closeFile(opened.fd);
    }
    throw new FileChangedError('another file has replaced the open one; open it again', { path });
  }

  reclaimDescriptor(): boolean {
    if (this.closed || this.#isBorrowed || this.#reclaimedPath !== undefined) return false;
    const path = resolve(this.path);
    if (this.#identity === undefined || statsOfFile(path, this.#identity) === undefined)
      return false;
    this.#addon.closeFile(this.#mapping);
    this.#reclaimedPath = path;
    return true;
  }

  /** Null after the descriptor was reclaimed, without which the system has no answer. */
  residentBytes(begin: number, end: number): number | null {
    if (begin === end) return 0;
    if (this.#reclaimedPath !== undefined) return null;
    return this.#named(() => this.#addon.residentBytes(this.#mapping, begin, end - begin));
  }

  /** One piece of work on the thread pool; close() does not wait for it. */
  async #onPool(work: () => Promise<void>): Promise<void> {
    this.verify();
    let unreadable: unknown;
    try {
      await work();
    } catch (error) {
      unreadable = error;
    }
    // A detached or truncated file is the error to report.
    this.verify();
    if (unreadable !== undefined) throw namingFile(unreadable, this.path);
  }

  /** A call of the addon, whose errors name no file. */
  #named<Result>(call: () => Result): Result {
    try {
      return call();
    } catch (error) {
      throw namingFile(error, this.path);
    }
  }

  protected makeBuffer(begin: number, end: number): ArrayBuffer {
    return this.#addon.tensorBuffer(this.#mapping, begin, end - begin);
  }

  protected isSuspicious(): boolean {
    return this.#addon.truncations[0] !== this.#truncations;
  }

  protected inspect(): FileState {
    const state = this.#state;
    this.#truncations = this.#addon.truncations[0] as number;
    this.#named(() => this.#addon.readFileState(this.#mapping, state));
    if (state[TRUNCATED] !== 0) return 'truncated';
    // The descriptor is closed.
    if (this.closed) return 'same';
    if (this.#reclaimedPath !== undefined && !this.#inspectPath(this.#reclaimedPath)) return 'same';
    const byteLength = state[SIZE] as number;
    if (byteLength !== this.byteLength) return { byteLength };
    return state[SECONDS] === this.#seconds && state[NANOSECONDS] === this.#nanoseconds
      ? 'same'
      : 'touched';
  }

  /**
   * Reads the state of a file without a descriptor. False if its path leads elsewhere: the mapping still is of the
   * file, which cannot be opened any more.
   */
  #inspectPath(path: string): boolean {
    const stats = statsOfFile(path, this.#identity as FileIdentity);
    if (stats === undefined) return false;
    this.#state[SIZE] = Number(stats.size);
    [this.#state[SECONDS], this.#state[NANOSECONDS]] = splitTime(stats.mtimeNs);
    return true;
  }

  protected rememberTime(): void {
    this.#seconds = this.#state[SECONDS] as number;
    this.#nanoseconds = this.#state[NANOSECONDS] as number;
  }

  protected releaseFile(): void {
    try {
      // The last check: readers see its result in `ok`.
      this.verify();
    } catch {
      // Closing does not throw.
    }
    this.#addon.closeFile(this.#mapping);
  }

  protected release(detached: readonly ArrayBuffer[] | undefined): void {
    if (detached === undefined) {
      this.#addon.release(this.#mapping);
      return;
    }
    const left: ArrayBuffer[] = [];
    const emptied = emptyBuffers(detached, (buffer) => left.push(buffer));
    this.#named(() => this.#addon.detach(this.#mapping, left, emptied));
  }
}
