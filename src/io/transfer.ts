/** Work in many pieces: how many run at once, progress, aborting. */

import { type OptionNames, requireFunction, requireSignal } from '../errors/arguments.js';

/** The progress of a transfer. */
export interface TransferProgress {
  /** Bytes that have arrived. */
  readonly bytes: number;
  /** Bytes to arrive in all. */
  readonly totalBytes: number;
}

/** Options of `saveFile`, `SafetensorsFile.prefetch` and `TensorSource.readTensors`. */
export interface TransferOptions {
  /**
   * Aborts the transfer: the pieces under way, some megabytes at most, are finished, then the promise
   * rejects with `signal.reason`.
   */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called at most ten times a second while bytes arrive, and once when all have. An error that it
   * throws ends the transfer, and the promise rejects with it.
   */
  readonly onProgress?: ((progress: TransferProgress) => void) | undefined;
}

/** Often enough for a progress bar, too seldom to cost anything. */
const PROGRESS_INTERVAL_MS = 100;

/** Names of the options. */
export const TRANSFER_OPTIONS: OptionNames<TransferOptions> = { signal: true, onProgress: true };

/** Throws a TypeError when the options are of the wrong kind. */
export function requireTransferOptions(options: TransferOptions): void {
  requireSignal(options.signal);
  if (options.onProgress !== undefined) requireFunction('onProgress', options.onProgress);
}

/** Work that waits for a slot. */
interface Waiting {
  readonly begin: () => void;
  next: Waiting | undefined;
}

/** Limits how many pieces of work run at once. The others wait, first come, first served. */
export class Slots {
  /** How many run at once. */
  readonly size: number;
  #free: number;
  // A linked list: a hundred thousand may wait, and taking the first out of an array moves all others.
  #first: Waiting | undefined;
  #last: Waiting | undefined;

  constructor(size: number) {
    this.size = size;
    this.#free = size;
  }

  /** Runs the work when a slot is free. It keeps the slot until its end, or until it calls `release`. */
  async run(work: (release: () => void) => Promise<void>): Promise<void> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#queue(resolve));
    let isHeld = true;
    const release = (): void => {
      if (isHeld) this.#passOn();
      isHeld = false;
    };
    try {
      await work(release);
    } finally {
      release();
    }
  }

  /** Hands a slot to the first in the queue, so nobody jumps it; frees it when nobody waits. */
  #passOn(): void {
    const first = this.#first;
    this.#first = first?.next;
    if (first === undefined) this.#free++;
    else first.begin();
  }

  #queue(begin: () => void): void {
    const waiting: Waiting = { begin, next: undefined };
    if (this.#first === undefined) this.#first = waiting;
    else (this.#last as Waiting).next = waiting;
    this.#last = waiting;
  }
}

/** Whatever can move pieces: a transfer, or a part of one. */
export type PieceMover = Pick<Transfer, 'run'>;

/** One call of the user that moves bytes, piece by piece. */
export class Transfer {
  readonly #totalBytes: number;
  readonly #signal: AbortSignal | undefined;
  readonly #onProgress: ((progress: TransferProgress) => void) | undefined;
  readonly #check: () => void;
  #bytes = 0;
  #reportedAt: number;

  /**
   * Throws a TypeError when the options are of the wrong kind. `check` is called before every piece
   * and at the end, and throws when there is no point in going on.
   */
  constructor(totalBytes: number, options: TransferOptions, check: () => void = () => {}) {
    requireTransferOptions(options);
    this.#totalBytes = totalBytes;
    this.#signal = options.signal;
    this.#onProgress = options.onProgress;
    this.#check = check;
    this.#reportedAt = performance.now();
  }

  /** The signal of the options, for waiting that is not for pieces. */
  get signal(): AbortSignal | undefined {
    return this.#signal;
  }

  /** A part of the transfer: its `run` does not end with `finish`. */
  get part(): PieceMover {
    return { run: (pieces, slots, move) => this.#move(pieces, slots, move) };
  }

  /**
   * Moves all pieces, begun in this order, as many at once as there are slots, then calls `finish`.
   * `move` resolves with the number of bytes that have arrived. An error or an abort stops the next
   * pieces from beginning; the promise rejects when none is under way any more.
   */
  async run<Piece>(
    pieces: Iterable<Piece>,
    slots: Slots,
    move: (piece: Piece) => Promise<number>,
  ): Promise<void> {
    await this.#move(pieces, slots, move);
    this.finish();
  }

  /** Counts bytes that have arrived, and reports them when it is time. `run` does so by itself. */
  advance(bytes: number): void {
    this.#bytes += bytes;
    const now = performance.now();
    if (this.#bytes >= this.#totalBytes || now - this.#reportedAt < PROGRESS_INTERVAL_MS) return;
    this.#reportedAt = now;
    this.#onProgress?.({ bytes: this.#bytes, totalBytes: this.#totalBytes });
  }

  /** Checks a last time, and reports that all bytes have arrived. `run` does so by itself. */
  finish(): void {
    this.#goOn();
    this.#onProgress?.({ bytes: this.#totalBytes, totalBytes: this.#totalBytes });
  }

  async #move<Piece>(
    pieces: Iterable<Piece>,
    slots: Slots,
    move: (piece: Piece) => Promise<number>,
  ): Promise<void> {
    const iterator = pieces[Symbol.iterator]();
    let ended = false;
    const step = async (): Promise<void> => {
      if (ended) return;
      try {
        this.#goOn();
        const piece = iterator.next();
        if (piece.done === true) ended = true;
        else this.advance(await move(piece.value));
      } catch (error) {
        ended = true;
        throw error;
      }
    };
    const lane = async (): Promise<void> => {
      while (!ended) await slots.run(step);
    };
    const lanes = await Promise.allSettled(Array.from({ length: slots.size }, lane));
    for (const result of lanes) if (result.status === 'rejected') throw result.reason;
  }

  #goOn(): void {
    this.#signal?.throwIfAborted();
    this.#check();
  }
}
