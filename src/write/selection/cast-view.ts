/** Casts tensors of a view when their values are used. */

import type { Computation } from '../../file/source/view.js';
import { DTYPES } from '../../header/dtype.js';
import { fillUnits } from '../../tensor/fill-units.js';
import type { Cast } from '../../tensor/float32/cast.js';
import { cast } from '../../tensor/float32/kernels.js';
import type { SliceIndices } from '../../tensor/slice.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import type { TransferOptions } from '../../work/transfer.js';

/** Elements that are cast at once. */
const WINDOW_LENGTH = 2 ** 18;

/** Where a view fetches what it casts. */
export interface CastBase {
  getTensor(name: string, options?: TransferOptions): Tensor | Promise<Tensor>;
  getSlice(name: string, ...args: readonly unknown[]): Tensor | Promise<Tensor>;
}

/** Returns the computation of `name` from the tensor `source` of the base. */
export function castComputation(
  base: CastBase,
  source: string,
  name: string,
  { from, to }: Cast,
): Computation {
  const compute = (tensor: Tensor): Tensor => {
    const range = TensorOf.sourceOf(tensor);
    const offset = TensorOf.offsetOf(tensor);
    const [width, sourceWidth] = [DTYPES[to].bits / 8, DTYPES[from].bits / 8];
    const elements = { byteLength: width, atOnce: WINDOW_LENGTH };
    const made = range.computed(name, tensor.elementCount * width, (target, position) =>
      fillUnits(target, position, elements, (first, count, output) => {
        const bytes = new Uint8Array(count * sourceWidth);
        range.copyTo(bytes, offset + first * sourceWidth);
        cast(from, to, bytes, output);
      }),
    );
    return TensorOf.of(name, to, tensor.shape, made);
  };
  return {
    compute: (sources) => compute(sources.get(source) as Tensor),
    fetch: async (index: SliceIndices, options) => {
      const fetched =
        index.length === 0
          ? await base.getTensor(source, options)
          : await base.getSlice(source, ...index, options);
      return await TensorOf.copyYielding(compute(fetched), options.signal);
    },
  };
}
