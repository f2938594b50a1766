/** A tensor in a file of another format. */

import type { TensorMemory } from '../../file/shards/shared-tensors.js';
import type { Quantization } from '../../file/source/tensor-info.js';
import { ComputedStorage, type StorageBytes } from '../../tensor/storage/computed.js';
import type { FileRange } from '../../work/byte-ranges.js';

/**
 * The facts of a tensor before its bytes are read: name, dtype and shape, its bytes in the form of safetensors, and,
 * for tensors that share memory, the place of its elements.
 */
export interface ForeignTensor extends TensorMemory {
  /** All its bytes, little endian in C order: in the file itself, or computed from the file's bytes. */
  readonly data: StorageBytes;
  /** Of a tensor of blocks how they are stored: its bytes are no numbers. */
  readonly quantization?: Quantization;
}

/** Returns the bytes of the file that are, or give, a tensor's bytes. */
export function heldBytes({ data }: ForeignTensor): StorageBytes {
  let found = data;
  while (found.storage instanceof ComputedStorage) found = found.storage.source;
  return found;
}

/** Their place in the file. */
export function heldRange(tensor: ForeignTensor): FileRange {
  const { begin, byteLength } = heldBytes(tensor);
  return { position: begin, byteLength };
}
