/** Work in many pieces on the thread pool: how many at once, how far it is, and when to stop. */

import { requireFunction, requireOptions, requireSignal } from '../errors/arguments.js';

/** How far a transfer is. */
export interface TransferProgress {
  /** Bytes that have arrived. */
  readonly bytes: number;
  /** Bytes to arrive in all. */
  readonly totalBytes: number;
}

/** Options of `saveFile`, `SafetensorsFile.prefetch` and `SafetensorsFile.load`. */
export interface TransferOptions {
  /**
   * Aborting it stops the transfer: what is under way, some megabytes at most, is finished, then the
   * promise rejects with `signal.reason`.
   */
  readonly signal?: AbortSignal | undefined;
  /**
   * Called at most ten times a second while bytes arrive, and once when all are there. What it
   * throws ends the transfer, and the promise rejects with it.
   */
  readonly onProgress?: ((progress: TransferProgress) => void) | undefined;
}

/** Often enough for a progress bar, too seldom to cost anything. */
const PROGRESS_INTERVAL_MS = 100;

/** Somebody who waits for a slot, and who comes next. */
interface Waiting {
  readonly begin: () => void;
  next: Waiting | undefined;
}

/** Lets a number of pieces of work run at once; the others wait, first come, first served. */
export class Slots {
  /** How many run at once. */
  readonly size: number;
  #free: number;
  // A list, since taking the first out of an array moves all others: a hundred thousand may wait.
  #first: Waiting | undefined;
  #last: Waiting | undefined;

  constructor(size: number) {
    this.size = size;
    this.#free = size;
  }

  /** Runs the work when a slot is free. */
  async run(work: () => Promise<void>): Promise<void> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#queue(resolve));
    try {
      await work();
    } finally {
      // The slot passes on taken, so that nobody can come between.
      const first = this.#first;
      this.#first = first?.next;
      if (first === undefined) this.#free++;
      else first.begin();
    }
  }

  #queue(begin: () => void): void {
    const waiting: Waiting = { begin, next: undefined };
    if (this.#first === undefined) this.#first = waiting;
    else (this.#last as Waiting).next = waiting;
    this.#last = waiting;
  }
}

/** Moves pieces of a transfer. */
export type PieceMover = Pick<Transfer, 'run'>;

/** One call of the user's that moves bytes, piece by piece. */
export class Transfer {
  readonly #totalBytes: number;
  readonly #signal: AbortSignal | undefined;
  readonly #onProgress: ((progress: TransferProgress) => void) | undefined;
  readonly #check: () => void;
  #bytes = 0;
  #reportedAt: number;

  /**
   * Throws when the options are wrong. `check` is called before every piece and at the end, and
   * throws when there is no point in going on.
   */
  constructor(totalBytes: number, options: TransferOptions, check: () => void) {
    requireOptions(options);
    const { signal, onProgress } = options;
    requireSignal(signal);
    if (onProgress !== undefined) requireFunction('onProgress', onProgress);
    this.#totalBytes = totalBytes;
    this.#signal = signal;
    this.#onProgress = onProgress;
    this.#check = check;
    this.#reportedAt = performance.now();
  }

  /** The caller's, for those who wait for something else than pieces. */
  get signal(): AbortSignal | undefined {
    return this.#signal;
  }

  /** For a transfer of several runs: as `run`, but without the end of the transfer. */
  get part(): PieceMover {
    return { run: (pieces, slots, move) => this.#move(pieces, slots, move) };
  }

  /**
   * Moves every piece, in this order, as many at once as there are slots; `move` resolves with the
   * number of bytes that have arrived. After an error or an abort no further piece is begun, and the
   * promise rejects when none is under way any more.
   */
  async run<Piece>(
    pieces: Iterable<Piece>,
    slots: Slots,
    move: (piece: Piece) => Promise<number>,
  ): Promise<void> {
    await this.#move(pieces, slots, move);
    this.finish();
  }

  /** Counts bytes that have arrived, and reports them when it is time; `run` does so by itself. */
  advance(bytes: number): void {
    this.#bytes += bytes;
    const now = performance.now();
    if (this.#bytes >= this.#totalBytes || now - this.#reportedAt < PROGRESS_INTERVAL_MS) return;
    this.#reportedAt = now;
    this.#onProgress?.({ bytes: this.#bytes, totalBytes: this.#totalBytes });
  }

  /** Checks for the last time and reports that all bytes are there; `run` does so by itself. */
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
