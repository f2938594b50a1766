/** Where the bytes of tensors to be written are in memory, so that it shows which of them share it. */

import type { TensorMemory } from '../shards/shared-tensors.js';
import { Tensor } from '../tensor/tensor.js';
import type { FilePayload, MemoryPayload, StreamPayload, TensorEntry } from './tensor-input.js';

/** The memory of a tensor: what it is told from another by, its length, and the first byte in it. */
type Place = Pick<TensorMemory, 'storage' | 'storageByteLength' | 'byteOffset'>;

/**
 * The memory of a tensor as it was given, with what was read of it. Tensors of a file have the memory
 * of their tensor, whether or not they are slices; nothing of it is read, and no buffer is made for
 * it. A stream has memory of its own.
 */
export function memoryOf(
  entry: TensorEntry<MemoryPayload | FilePayload | StreamPayload>,
  given: unknown,
): TensorMemory {
  const { name, dtype, shape } = entry;
  return { name, dtype, shape, ...placeOf(entry, given) };
}

function placeOf(
  { payload, byteLength }: TensorEntry<MemoryPayload | FilePayload | StreamPayload>,
  given: unknown,
): Place {
  if (given instanceof Tensor) return placeOfTensor(given);
  if (payload.kind === 'stream') {
    return { storage: payload, storageByteLength: byteLength, byteOffset: 0 };
  }
  const { buffer, byteOffset } = (payload as MemoryPayload).window(0, byteLength);
  return { storage: buffer, storageByteLength: buffer.byteLength, byteOffset };
}

function placeOfTensor(tensor: Tensor): Place {
  const source = Tensor.sourceOf(tensor);
  const { owner } = source;
  const offset = source.position - owner.position + Tensor.offsetOf(tensor);
  if (owner.isResolved) {
    const { buffer, byteOffset } = owner.range();
    // The caller may have made other tensors of this buffer. One that holds more, as the bytes of a
    // whole file, is not the tensor's memory.
    if (buffer.byteLength === owner.byteLength) {
      return {
        storage: buffer,
        storageByteLength: buffer.byteLength,
        byteOffset: byteOffset + offset,
      };
    }
  }
  return { storage: owner, storageByteLength: owner.byteLength, byteOffset: offset };
}
