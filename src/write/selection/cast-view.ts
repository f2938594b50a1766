/** Casts tensors of a view when their values are used. */

import type { Computation } from '../../file/source/view.js';
import { DTYPES } from '../../header/dtype.js';
import type { Cast } from '../../tensor/float32/cast.js';
import { cast } from '../../tensor/float32/kernels.js';
import type { SliceIndices } from '../../tensor/slice.js';
import type { StorageRange } from '../../tensor/storage-range.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import { cut } from '../../work/byte-ranges.js';
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
    const byteLength = (tensor.elementCount * DTYPES[to].bits) / 8;
    const made = range.computed(name, byteLength, (target, position) =>
      fillCast(range, offset, { from, to }, target, position),
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

/** Fills bytes of the cast elements from any position on: in place where whole elements fit. */
function fillCast(
  source: StorageRange,
  offset: number,
  { from, to }: Cast,
  target: Uint8Array,
  position: number,
): void {
  const [width, sourceWidth] = [DTYPES[to].bits / 8, DTYPES[from].bits / 8];
  const end = position + target.length;
  const elements = cut(Math.floor(position / width), Math.ceil(end / width), WINDOW_LENGTH);
  for (const window of elements) {
    const [begin, length] = [window.begin * width, (window.end - window.begin) * width];
    const bytes = new Uint8Array((length / width) * sourceWidth);
    source.copyTo(bytes, offset + window.begin * sourceWidth);
    if (begin >= position && begin + length <= end) {
      cast(from, to, bytes, target.subarray(begin - position, begin - position + length));
      continue;
    }
    const own = new Uint8Array(length);
    cast(from, to, bytes, own);
    const [first, last] = [Math.max(begin, position), Math.min(begin + length, end)];
    target.set(own.subarray(first - begin, last - begin), first - position);
  }
}
