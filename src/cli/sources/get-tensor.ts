/** One tensor, or a part of it, of whatever holds tensors. */

import type { SliceIndex, Tensor, TransferProgress } from '../../index.js';
import { foreignSource, type OpenedSource } from './open-source.js';

type OnProgress = (progress: TransferProgress) => void;

const READABLE = 'a file or checkpoint whose tensors can be read';

/** A tensor whose parts can be had. */
export interface FoundTensor {
  readonly dtype: Tensor['dtype'];
  readonly shape: readonly number[];
  slice(index: readonly SliceIndex[], onProgress?: OnProgress): Promise<Tensor>;
}

/**
 * Finds a tensor. Of a remote one only what is sliced is fetched.
 *
 * @throws TensorNotFoundError; ForeignFormatError for a source whose tensors cannot be read
 */
export async function findTensor(
  opened: OpenedSource,
  name: string,
  signal: AbortSignal,
): Promise<FoundTensor> {
  if (opened.kind === 'remote') {
    const { checkpoint } = opened;
    const { dtype, shape } = await checkpoint.info(name, { signal });
    const slice = (index: readonly SliceIndex[], onProgress?: OnProgress): Promise<Tensor> =>
      index.length === 0
        ? checkpoint.getTensor(name, { signal, onProgress })
        : checkpoint.getSlice(name, ...index, { signal, onProgress });
    return { dtype, shape, slice };
  }
  if ('checkpoint' in opened) {
    const tensor = opened.checkpoint.getTensor(name);
    const { dtype, shape } = tensor;
    const slice = async (index: readonly SliceIndex[]): Promise<Tensor> =>
      index.length === 0 ? tensor : (tensor.slice(...index) as Tensor);
    return { dtype, shape, slice };
  }
  throw foreignSource(opened, READABLE);
}

/** Names of all tensors, in the order of their bytes where that is known without requests. */
export function tensorNames(opened: OpenedSource): string[] {
  if (opened.kind === 'remote') return opened.checkpoint.keys();
  if ('checkpoint' in opened) {
    const { checkpoint } = opened;
    // Those that safetensors cannot hold are no less there.
    return [...checkpoint.offsetKeys(), ...checkpoint.problems.map(({ tensor = '' }) => tensor)];
  }
  throw foreignSource(opened, READABLE);
}
