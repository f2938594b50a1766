/** Casts a tensor's bytes to another dtype while they are written, each piece on a thread of the pool. */

import { DTYPES } from '../../header/dtype.js';
import type { Cast } from '../../tensor/float32/cast.js';
import { castOnPool } from '../../tensor/float32/kernels.js';
import type { AsyncFill } from '../../tensor/storage/computed.js';

/** Memory for elements to cast, shared by pieces that are cast one after the other. */
export class CastMemory {
  readonly #free: Uint8Array[] = [];

  /** Returns memory of this length for one piece. */
  take(byteLength: number): Uint8Array {
    const free = this.#free.pop();
    return free !== undefined && free.length >= byteLength
      ? free.subarray(0, byteLength)
      : new Uint8Array(byteLength);
  }

  /** Takes memory back that is no longer in use. */
  release({ buffer }: Uint8Array): void {
    this.#free.push(new Uint8Array(buffer));
  }
}

/**
 * Fills pieces of whole elements of the new dtype, cast from the elements that `fill` provides. Calls `fill` once per
 * piece, in the order of its own calls.
 *
 * @param onTooLarge receives the number of elements too large for the dtype, as `castInTypeScript` counts them
 */
export function castFill(
  fill: AsyncFill,
  { from, to }: Cast,
  memory: CastMemory,
  onTooLarge: (count: number) => void,
): AsyncFill {
  const [sourceBytes, targetBytes] = [DTYPES[from].bits / 8, DTYPES[to].bits / 8];
  return async (target, begin, signal) => {
    const bytes = memory.take((target.length / targetBytes) * sourceBytes);
    try {
      await fill(bytes, (begin / targetBytes) * sourceBytes, signal);
      const tooLarge = await castOnPool(from, to, bytes, target);
      if (tooLarge > 0) onTooLarge(tooLarge);
    } finally {
      memory.release(bytes);
    }
  };
}
