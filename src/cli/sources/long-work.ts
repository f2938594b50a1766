/** Work on many bytes that never waits for the system. */

/** After so many bytes, a few milliseconds, the event loop gets a turn. */
const TURN_BYTE_LENGTH = 4 * 2 ** 20;

/** Reports progress, and ends the work when the signal aborts. */
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
