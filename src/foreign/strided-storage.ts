/** A strided tensor as a storage: gathers bytes on demand. */

import { type AsyncFill, ComputedStorage, type StorageBytes } from '../tensor/storage/computed.js';
import { runAsync, runSync } from '../work/work.js';
import type { StepFill } from './tensors/read-ahead.js';
import { type Change, stridedFill } from './tensors/strided-fill.js';
import type { TensorLayout } from './tensors/tensor-layout.js';

/** The bytes of the tensor that a layout describes in the held bytes, in C order. */
export class StridedStorage extends ComputedStorage {
  readonly #makeFill: () => StepFill;

  constructor(held: StorageBytes, layout: TensorLayout, change: Change | undefined) {
    const makeFill = (): StepFill => stridedFill(held, layout, change);
    const fill = makeFill();
    super(layout.byteLength, held, (target, position) => runSync(fill(target, position)));
    this.#makeFill = makeFill;
  }

  /**
   * Returns the bytes from `begin` on for pieces in order, gathered on this thread in short steps, between which the
   * event loop turns.
   */
  inOrder(begin: number): AsyncFill {
    const fill = this.#makeFill();
    let before: Promise<unknown> = Promise.resolve();
    return (target, position) => {
      const piece = before.then(() => runAsync(fill(target, begin + position), undefined));
      before = piece;
      return piece;
    };
  }
}
