/** Provides a tensor's bytes in the form of safetensors: those of the file if they are the same, else computed. */

import type { StorageBytes } from '../tensor/storage/computed.js';
import { StridedStorage } from './strided-storage.js';
import type { Change } from './tensors/strided-fill.js';
import { isContiguous, type TensorLayout } from './tensors/tensor-layout.js';

/**
 * Returns the bytes of the tensor that the layout describes in the held bytes. Reads nothing. A contiguous, unchanged
 * tensor is a part of the held bytes: over a mapping it is read without a copy.
 */
export function tensorData(
  held: StorageBytes,
  layout: TensorLayout,
  change: Change | undefined,
): StorageBytes {
  const { byteLength, offset, itemByteLength } = layout;
  if (change === undefined && isContiguous(layout)) {
    return { storage: held.storage, begin: held.begin + offset * itemByteLength, byteLength };
  }
  return { storage: new StridedStorage(held, layout, change), begin: 0, byteLength };
}
