/** Lets the event loop turn during work that never waits for the system. */

/** Bytes of work, a few milliseconds, before the event loop gets a turn. */
const TURN_BYTE_LENGTH = 4 * 2 ** 20;

/** Reports progress, and ends the work when the signal aborts. */
export class LongWork {
  readonly #signal: AbortSignal;
  readonly #onBytes: (byteLength: number) => void;
  #sinceTurn = 0;

  /** @param onBytes called with the bytes done since the last call */
  constructor(signal: AbortSignal, onBytes: (byteLength: number) => void) {
    this.#signal = signal;
    this.#onBytes = onBytes;
  }

  /**
   * Await it after each piece of work. Without turns of the event loop SIGINT would go unnoticed until the end.
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
