/** Compares the bytes of a tensor with the sum that its file claims, while they go by. */

import { createHash } from 'node:crypto';
import type { ErrorContext } from '../../errors/errors.js';
import { sumMismatch } from '../../header/tensor-sums.js';
import { allSettled } from '../../platform/transfer/all-settled.js';
import type { AsyncFill } from '../../tensor/storage/made.js';

/** A tensor with a sum. */
interface SummedTensor {
  readonly byteLength: number;
  /** The sum that its file claims, in hexadecimal digits. */
  readonly sum: string;
  readonly context: ErrorContext;
}

/**
 * Fills as `fill` does, and throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH` with the last bytes if the sum differs.
 * Pieces must be asked for in order, from the first byte on.
 */
export function summedFill(fill: AsyncFill, { byteLength, sum, context }: SummedTensor): AsyncFill {
  let hash = createHash('sha256');
  let before: Promise<unknown> | undefined;
  return (target, position) => {
    if (position === 0) {
      hash = createHash('sha256');
      before = undefined;
    }
    const piece = allSettled([fill(target, position), before]).then(() => {
      hash.update(target);
      if (position + target.length < byteLength) return;
      const found = hash.digest('hex');
      if (found !== sum) throw sumMismatch(sum, found, context);
    });
    before = piece;
    return piece;
  };
}
