/** Tells where the tensors to be written lie in memory, to find those that share it. */

import type { TensorMemory } from '../../file/shards/shared-tensors.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import type { MemoryPayload } from '../input/tensor-input.js';
import type { AnyEntry } from './layout.js';

/** The identity of a tensor's memory, its length, and where the tensor begins in it. */
type MemoryPlace = Pick<TensorMemory, 'storage' | 'storageByteLength' | 'byteOffset'>;

/**
 * The memory of a tensor; `given` is what the caller passed, `entry` what was read from that. For
 * tensors of a file and their slices it is the memory of the whole tensor; nothing of it is read, and
 * no buffer is made for it. A stream shares memory with nothing.
 */
export function memoryOfEntry(entry: AnyEntry, given: unknown): TensorMemory {
  const { name, dtype, shape } = entry;
  return { name, dtype, shape, ...placeOfEntry(entry, given) };
}

function placeOfEntry({ payload, byteLength }: AnyEntry, given: unknown): MemoryPlace {
  if (given instanceof TensorOf) return placeOfTensor(given);
  if (payload.kind === 'stream') {
    return { storage: payload, storageByteLength: byteLength, byteOffset: 0 };
  }
  const { buffer, byteOffset } = (payload as MemoryPayload).window(0, byteLength);
  return { storage: buffer, storageByteLength: buffer.byteLength, byteOffset };
}

function placeOfTensor(tensor: Tensor): MemoryPlace {
  const source = TensorOf.sourceOf(tensor);
  const { owner } = source;
  const offset = source.position - owner.position + TensorOf.offsetOf(tensor);
  if (owner.isResolved) {
    const { buffer, byteOffset } = owner.resolve();
    // The caller may have made other tensors from this buffer. A longer buffer, such as one with the
    // bytes of a whole file, is not the tensor's memory.
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
