/** One tensor of a source, or a slice of it. */

import type { SliceIndices, Tensor, TransferProgress } from '../../index.js';
import { foreignSource, type OpenedSource } from './open-source.js';

type OnProgress = (progress: TransferProgress) => void;

/** What commands that read values expect. */
export const READABLE = 'a file or checkpoint whose tensors can be read';

/** A tensor that can be sliced. */
export interface FoundTensor {
  readonly dtype: Tensor['dtype'];
  readonly shape: readonly number[];
  slice(index: SliceIndices, onProgress?: OnProgress): Promise<Tensor>;
}

/**
 * Finds a tensor. Slicing a remote tensor fetches only the slice.
 *
 * @throws TensorNotFoundError; FormatError for a source whose tensors cannot be read
 */
export async function findTensor(
  opened: OpenedSource,
  name: string,
  signal: AbortSignal,
): Promise<FoundTensor> {
  if (!('checkpoint' in opened)) throw foreignSource(opened, READABLE);
  if (opened.kind === 'remote') {
    const { checkpoint } = opened;
    const { dtype, shape } = await checkpoint.info(name, { signal });
    const slice = (index: SliceIndices, onProgress?: OnProgress): Promise<Tensor> =>
      index.length === 0
        ? checkpoint.getTensor(name, { signal, onProgress })
        : checkpoint.getSlice(name, ...index, { signal, onProgress });
    return { dtype, shape, slice };
  }
  const tensor = opened.checkpoint.getTensor(name);
  const { dtype, shape } = tensor;
  const slice = async (index: SliceIndices): Promise<Tensor> =>
    index.length === 0 ? tensor : (tensor.slice(...index) as Tensor);
  return { dtype, shape, slice };
}
