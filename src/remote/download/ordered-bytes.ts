/** Fetches bytes of remote files in the order of the writer. */

import { withScope } from '../../work/scope.js';
import { untilAborted } from '../../work/until-aborted.js';
import type { RemoteRange } from './download-item.js';
import { fetchAhead } from './fetch-ahead.js';
import { piecesFrom } from './pieces.js';

/** Memory to fill with the next bytes. */
interface WaitingBytes {
  readonly target: Uint8Array;
  filled: number;
  resolve(): void;
  reject(reason: unknown): void;
}

/** The bytes of some ranges, fetched a few pieces ahead. */
export class OrderedBytes {
  readonly #waiting: WaitingBytes[] = [];
  #failure: { readonly reason: unknown } | undefined;
  /** Wakes the fetching, which waits for memory. */
  #wake: () => void = () => {};

  /**
   * Fetches the bytes of the ranges while the work takes them. An error of either ends both.
   *
   * @throws The error of a request or of the work; the signal's reason
   */
  static async use<Result>(
    ranges: Iterable<RemoteRange>,
    signal: AbortSignal,
    work: (bytes: OrderedBytes) => Promise<Result>,
  ): Promise<Result> {
    const bytes = new OrderedBytes();
    return await withScope([signal], async (scope) => {
      const fetching = bytes.#fetch(ranges, scope.signal);
      try {
        return await work(bytes);
      } catch (error) {
        scope.abort(error);
        throw error;
      } finally {
        scope.abort();
        await fetching;
      }
    });
  }

  /** Fills `target` with the next bytes. Calls need not wait for each other. */
  take(target: Uint8Array): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure.reason);
    return new Promise((resolve, reject) => {
      this.#waiting.push({ target, filled: 0, resolve, reject });
      this.#wake();
    });
  }

  /** Never rejects: `fill` rejects with the error. */
  async #fetch(ranges: Iterable<RemoteRange>, signal: AbortSignal): Promise<void> {
    try {
      const use = (bytes: Uint8Array): Promise<void> => this.#give(bytes, signal);
      await fetchAhead(piecesFrom({ segments: ranges }, 0), { signal, advance: () => {}, use });
    } catch (reason) {
      this.#failure = { reason };
      for (const { reject } of this.#waiting.splice(0)) reject(reason);
    }
  }

  async #give(bytes: Uint8Array, signal: AbortSignal): Promise<void> {
    for (let given = 0; given < bytes.length; ) {
      const [first] = this.#waiting;
      if (first === undefined) {
        const woken = new Promise<void>((resolve) => {
          this.#wake = resolve;
        });
        await untilAborted(woken, signal);
        continue;
      }
      const { target, filled } = first;
      const length = Math.min(target.length - filled, bytes.length - given);
      target.set(bytes.subarray(given, given + length), filled);
      given += length;
      first.filled += length;
      if (first.filled < target.length) continue;
      this.#waiting.shift();
      first.resolve();
    }
  }
}
