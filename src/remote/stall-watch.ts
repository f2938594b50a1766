/** Ends what brings next to nothing for too long. */

/** So long a try may bring next to nothing. */
export const STALL_MS = 15_000;

/** So much must come in that time: a connection of a byte per second is as good as none. */
export const LEAST_BYTE_LENGTH = 1024;

/** A timer that is so late waited for this thread, or for a machine that slept, not for the server. */
const LATE_MS = 1000;

/** Watches one try, from now until `end()`. */
export class StallWatch {
  readonly #controller = new AbortController();
  readonly #stallMs: number;
  readonly #timer: ReturnType<typeof setInterval>;
  #due: number;
  #byteLength = 0;

  constructor(stallMs: number) {
    this.#stallMs = stallMs;
    this.#due = performance.now() + stallMs;
    this.#timer = setInterval(() => this.#look(), stallMs);
  }

  /** Is aborted when the try has stalled. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Counts what has arrived. */
  received(byteLength: number): void {
    this.#byteLength += byteLength;
  }

  /** Leaves no timer. */
  end(): void {
    clearInterval(this.#timer);
  }

  #look(): void {
    const now = performance.now();
    if (this.#byteLength < LEAST_BYTE_LENGTH && now - this.#due < LATE_MS) this.#controller.abort();
    this.#byteLength = 0;
    this.#due = now + this.#stallMs;
  }
}
