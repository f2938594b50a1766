/** Work that goes over many bytes without waiting for anything. */

/** Signals and the progress have their turn after so many bytes: a few milliseconds. */
const TURN_BYTE_LENGTH = 4 * 2 ** 20;

/** Says how far the work is, and lets it be ended. */
export class LongWork {
  readonly #signal: AbortSignal;
  readonly #onBytes: (byteLength: number) => void;
  #sinceTurn = 0;

  /** @param onBytes called with the length of what was done since the call before */
  constructor(signal: AbortSignal, onBytes: (byteLength: number) => void) {
    this.#signal = signal;
    this.#onBytes = onBytes;
  }

  /**
   * To be awaited after each piece of work. Without turns of the event loop SIGINT would not be heard before the
   * end.
   *
   * @throws The reason of the signal, when it was aborted
   */
  async did(byteLength: number): Promise<void> {
    this.#onBytes(byteLength);
    this.#sinceTurn += byteLength;
    if (this.#sinceTurn >= TURN_BYTE_LENGTH) {
      this.#sinceTurn = 0;
      await new Promise((resolve) => setImmediate(resolve));
    }
    this.#signal.throwIfAborted();
  }
}
