/** The base of the mapped and the reading storage: detects changes, and keeps the buffers exposed. */

import { constants } from 'node:buffer';
import process from 'node:process';
import { setImmediate } from 'node:timers';
import { FileChangedError, FileClosedError } from '../../errors/errors.js';
import type {
  BufferRange,
  DescriptorLease,
  LeasableStorage,
} from '../../tensor/storage/storage.js';
import { runSync } from '../../work/work.js';
import { type OpenedFile, type ReadBytes, readFully } from '../io/opened-file.js';

/** The state of a file since its header was last checked. */
export type FileState = 'same' | 'touched' | 'truncated' | 'replaced' | { byteLength: number };

/** How long `verifyOften` trusts the last answer of the system, in nanoseconds. */
const TRUSTED_NS = 1_000_000n;

/** Bytes of copied windows that are referenced in one turn of the event loop. */
const MAX_REFERENCED_BYTE_LENGTH = 2 ** 24;

let referencedByteLength = 0;

/**
 * A weak reference to a copied window; undefined when this turn of the event loop has made many. The engine keeps the
 * target of a reference that it has made, or followed, until the turn ends: slices in a loop without a pause
 * would all stay in memory.
 */
function referenceTo(window: ArrayBuffer): WeakRef<ArrayBuffer> | undefined {
  const { byteLength } = window;
  if (referencedByteLength + byteLength > MAX_REFERENCED_BYTE_LENGTH) return undefined;
  if (referencedByteLength === 0) {
    setImmediate(() => {
      referencedByteLength = 0;
    }).unref();
  }
  referencedByteLength += byteLength;
  return new WeakRef(window);
}

// Taken once, before a test can replace it by a clock that stands still. Not `performance`, for which
// Node would load eleven modules at the start. A process that is made up for a `vm` context may lack it:
// there the import works, and opening files does not.
const now = process.hrtime?.bigint;

/** A storage over an open descriptor. Subclasses reach the bytes and release the descriptor. */
export abstract class FileBackedStorage implements LeasableStorage {
  abstract readonly kind: 'mmap' | 'read';
  abstract readonly zeroCopy: boolean;
  readonly path: string;
  readonly byteLength: number;
  readonly maxBufferByteLength: number = constants.MAX_LENGTH;
  #ok = true;
  #closed = false;
  #ended = false;
  #readers = 0;
  #requestedAt = -TRUSTED_NS;
  /** All bytes before the tensor data, when the file was opened. */
  readonly #start: Uint8Array;
  // Strong references, until the handle is closed: a tensor's buffer is the same on every call.
  #kept: ArrayBuffer[] = [];
  // Weak references: windows are many and short-lived, but a detaching close must find those alive.
  readonly #passing = new Set<WeakRef<ArrayBuffer>>();
  #pruneWindowsAt = 64;

  /** Keeps `start`, the bytes before the tensor data, to compare them in `verify`. */
  constructor(file: OpenedFile, start: Uint8Array) {
    this.path = file.path;
    this.byteLength = file.byteLength;
    this.#start = start;
  }

  get ok(): boolean {
    return this.#ok;
  }

  get closed(): boolean {
    return this.#closed;
  }

  get ended(): boolean {
    return this.#ended;
  }

  abstract readonly canLease: boolean;

  abstract addressOf(position: number): number;

  /** Positioned reads of the file, into ordinary memory. */
  protected abstract readonly read: ReadBytes;

  abstract acquireDescriptor(): DescriptorLease;

  abstract residentBytes(begin: number, end: number): number | null;

  /** Closes the descriptor, if the path leads to the same file and no call uses it. Returns whether it closed it. */
  abstract reclaimDescriptor(): boolean;

  /** A new buffer with the bytes [begin, end), at least one. */
  protected abstract makeBuffer(begin: number, end: number): ArrayBuffer;

  /** Whether a change since `inspect` is known without a system call. */
  protected abstract isSuspicious(): boolean;

  /** Compares size and modification time with those remembered; a guard's mark counts as truncated. */
  protected abstract inspect(): FileState;

  /** Remembers the modification time that the last `inspect` saw. */
  protected abstract rememberTime(): void;

  /** Frees everything that readers don't need, when the file is closed. */
  protected abstract releaseFile(): void;

  /** Frees everything, and empties the buffers in `detached`. */
  protected abstract release(detached: readonly ArrayBuffer[] | undefined): void;

  addReader(): void {
    this.#readers++;
  }

  removeReader(): void {
    this.#readers--;
    if (this.#closed && this.#readers === 0) this.#end(undefined);
  }

  bytes(begin: number, end: number, filled?: ArrayBuffer): BufferRange {
    this.#verifyHandingOut();
    const buffer = filled ?? this.makeBuffer(begin, end);
    if (!this.#closed) this.#kept.push(buffer);
    return { buffer, byteOffset: 0 };
  }

  window(begin: number, end: number): Uint8Array<ArrayBuffer> {
    this.#verifyHandingOut();
    const buffer = this.makeBuffer(begin, end);
    if (!this.#closed) {
      const reference = this.zeroCopy ? new WeakRef(buffer) : referenceTo(buffer);
      if (reference !== undefined) this.#passing.add(reference);
    }
    if (this.#passing.size >= this.#pruneWindowsAt) this.#pruneWindows();
    return new Uint8Array(buffer);
  }

  hold(begin: number, end: number): Uint8Array<ArrayBuffer> {
    this.verify();
    return new Uint8Array(this.makeBuffer(begin, end));
  }

  verify(): void {
    if (this.#ended) throw new FileClosedError({ path: this.path });
    if (!this.#ok) this.#fail('the file changed after it was opened');
    this.#requestedAt = now();
    const state = this.inspect();
    if (state === 'same') return;
    if (state === 'touched') {
      // Tools touch files without changing them; the header tells whether this is another file.
      // Not from the mapping, to which users write.
      const start = new Uint8Array(this.#start.byteLength);
      runSync(readFully(this.read, start, 0, this.path));
      if (Buffer.compare(this.#start, start) === 0) {
        this.rememberTime();
        return;
      }
      this.#fail('the file was rewritten after it was opened: its header is another');
    }
    if (state === 'replaced')
      this.#fail('its descriptor was closed, and leads to another file now');
    if (state === 'truncated') this.#fail('the file was truncated while it was mapped');
    this.#fail(
      `the file changed after it was opened: expected ${this.byteLength} bytes, found ${state.byteLength}`,
    );
  }

  verifyOften(): void {
    if (
      this.#ended ||
      !this.#ok ||
      this.isSuspicious() ||
      now() - this.#requestedAt >= TRUSTED_NS
    ) {
      this.verify();
    }
  }

  close(detach: boolean): void {
    if (this.#closed) return;
    if (detach || this.#readers === 0) {
      this.#end(detach ? [...this.#kept, ...this.#aliveWindows()] : undefined);
    } else {
      this.releaseFile();
    }
    this.#closed = true;
    this.#kept = [];
    this.#passing.clear();
  }

  #end(detached: readonly ArrayBuffer[] | undefined): void {
    if (this.#ended) return;
    this.#ended = true;
    this.release(detached);
  }

  #verifyHandingOut(): void {
    if (this.zeroCopy) this.verifyOften();
    else this.verify();
  }

  #fail(message: string): never {
    this.#ok = false;
    throw new FileChangedError(`${message}; open it again`, { path: this.path });
  }

  #aliveWindows(): ArrayBuffer[] {
    return [...this.#passing].map((ref) => ref.deref()).filter((buffer) => buffer !== undefined);
  }

  #pruneWindows(): void {
    for (const ref of this.#passing) if (ref.deref() === undefined) this.#passing.delete(ref);
    this.#pruneWindowsAt = 2 * this.#passing.size + 64;
  }
}
