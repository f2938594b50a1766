/** Locates the tensors to write in memory, to find those that share it. */

import type { TensorMemory } from '../../file/shards/shared-tensors.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import type { MemoryPayload } from '../input/tensor-input.js';
import type { AnyEntry } from './layout.js';

/** The identity of a tensor's memory, its length, and the tensor's offset in it. */
type MemoryPlace = Pick<TensorMemory, 'storage' | 'storageByteLength' | 'byteOffset'>;

/**
 * Returns the memory of a tensor; `given` is the caller's value, `entry` the result of checking it. For tensors of a
 * file and their slices it is the memory of the whole tensor, without reading it or making a buffer. A stream never
 * shares memory.
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
    // The caller may have made other tensors from this buffer. A longer buffer, such as the bytes of a whole file, is
    // not the tensor's own memory.
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
