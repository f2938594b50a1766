/** Uses the results of work that runs at the same time, in the order in which it was started. */

import { allSettled } from './all-settled.js';

/** The order of some work. */
export class InOrder {
  #before: Promise<unknown> = Promise.resolve();

  /**
   * Calls `use` with the result, after it was called for all earlier work. Rejects with the error of this work or of
   * earlier work; all of it has settled by then.
   */
  async use<Result>(work: Promise<Result> | Result, use: (result: Result) => void): Promise<void> {
    const used = allSettled([work, this.#before]).then(async () => use(await work));
    this.#before = used;
    await used;
  }
}
