/** Ends tries that make too little progress. */

/** Milliseconds that a try may go without progress. */
export const STALL_MS = 15_000;

/** Least bytes in that time: a byte per second is no progress. */
export const LEAST_BYTE_LENGTH = 1024;

/** Delay of a timer that means that this thread was busy, or the machine asleep: not the server's fault. */
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

  /** Aborted once the try has stalled. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Counts arrived bytes. */
  received(byteLength: number): void {
    this.#byteLength += byteLength;
  }

  /** Removes the timer. */
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
