/** Reads of files that are not local: counted, and held back while a test needs them under way. */

import { HeldAnswers } from '../../support/held-answers.js';

/** The reads of one source. */
export class Traffic {
  /** The name of the file of every read, in order. */
  readonly requests: string[] = [];
  readonly #waiting = new Set<(value: undefined) => void>();
  readonly #answers = new HeldAnswers();

  /** Counts a read; resolves when the answer may leave. */
  async pass(name: string): Promise<void> {
    this.requests.push(name);
    for (const resolve of this.#waiting) resolve(undefined);
    this.#waiting.clear();
    await this.#answers.released;
  }

  /** Holds back all answers until the returned function is called. */
  hold(): () => void {
    return this.#answers.hold();
  }

  /** Resolves with true once there are more reads than these. */
  async next(count: number): Promise<true> {
    while (this.requests.length <= count)
      await new Promise((resolve) => this.#waiting.add(resolve));
    return true;
  }
}
