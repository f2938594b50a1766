/** The bytes of a tensor as safetensors has them: those of the file where these are the same, else made. */

import type { StorageBytes } from '../tensor/storage/made.js';
import { StridedStorage } from './strided-storage.js';
import type { Change } from './tensors/strided-fill.js';
import { isContiguous, type TensorLayout } from './tensors/tensor-layout.js';

/**
 * The bytes of the tensor that the layout describes in the held bytes. Nothing is read. A contiguous tensor
 * without changes gives a part of what is held: over a mapping it will be read without a copy.
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
