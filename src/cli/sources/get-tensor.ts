/** One tensor of a model, or a slice of it. */

import type { AnyCheckpoint, SliceIndices, Tensor, TransferProgress } from '../../index.js';

type OnProgress = (progress: TransferProgress) => void;

/** A tensor that can be sliced. */
export interface FoundTensor {
  readonly dtype: Tensor['dtype'];
  readonly shape: readonly number[];
  slice(index: SliceIndices, onProgress?: OnProgress): Promise<Tensor>;
}

/**
 * Finds a tensor. Slicing a remote tensor fetches only the slice.
 *
 * @throws TensorNotFoundError; FormatError for a tensor that cannot be read
 */
export async function findTensor(
  checkpoint: AnyCheckpoint,
  name: string,
  signal: AbortSignal,
): Promise<FoundTensor> {
  if (!checkpoint.local) {
    const { dtype, shape } = await checkpoint.info(name, { signal });
    const slice = (index: SliceIndices, onProgress?: OnProgress): Promise<Tensor> =>
      index.length === 0
        ? checkpoint.getTensor(name, { signal, onProgress })
        : checkpoint.getSlice(name, ...index, { signal, onProgress });
    return { dtype, shape, slice };
  }
  const tensor = checkpoint.getTensor(name);
  const { dtype, shape } = tensor;
  const slice = async (index: SliceIndices): Promise<Tensor> =>
    index.length === 0 ? tensor : (tensor.slice(...index) as Tensor);
  return { dtype, shape, slice };
}
