/** Moves bytes for a user's call: progress, aborts, checks. */

import { type OptionNames, requireFunction, requireSignal } from '../errors/arguments.js';
import { limit, type Slots } from './slots.js';

/** The progress of a transfer. */
export interface TransferProgress {
  /** Bytes that have arrived. */
  readonly bytes: number;
  /** Bytes to arrive in all. */
  readonly totalBytes: number;
}

/** Bytes of all parts together. */
export function totalByteLength(parts: readonly { readonly byteLength: number }[]): number {
  return parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
}

/** Options of `saveFile`, `Checkpoint.prefetch` and `TensorSource.readTensors`. */
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

/** Throws a TypeError for unusable options. */
export function requireTransferOptions(options: TransferOptions): void {
  requireSignal(options.signal);
  if (options.onProgress !== undefined) requireFunction('onProgress', options.onProgress);
}

/** Returns an `onProgress` that adds the bytes of one part to a transfer. */
export function progressOfPart(transfer: Transfer): (progress: TransferProgress) => void {
  let counted = 0;
  return ({ bytes }) => {
    transfer.advance(bytes - counted);
    counted = bytes;
  };
}

/** A mover of pieces: a transfer, or a part of one. */
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
   * Throws a TypeError for unusable options. `check` is called before every piece and at the end; it throws to end
   * the transfer.
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
   * Moves all pieces, begun in this order, as many at once as there are slots, then calls `finish`. `move` resolves
   * with the number of bytes that have arrived. An error or an abort keeps further pieces from starting; the promise
   * rejects when those under way have ended.
   */
  async run<Piece>(
    pieces: Iterable<Piece>,
    slots: Slots,
    move: (piece: Piece) => Promise<number>,
  ): Promise<void> {
    await this.#move(pieces, slots, move);
    this.finish();
  }

  /** Counts bytes that have arrived, and reports them in intervals. `run` does so by itself. */
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
    await limit(
      pieces,
      slots,
      async (piece) => this.advance(await move(piece)),
      () => this.#goOn(),
    );
  }

  #goOn(): void {
    this.#signal?.throwIfAborted();
    this.#check();
  }
}
