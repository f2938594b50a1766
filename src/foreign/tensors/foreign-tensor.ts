/** A tensor in a file of another format. */

import type { TensorMemory } from '../../file/shards/shared-tensors.js';
import type { FileRange } from '../../tensor/pieces.js';
import { MadeStorage, type StorageBytes } from '../../tensor/storage/made.js';

/**
 * What is known of a tensor before its bytes are read: name, dtype and shape, its bytes as safetensors
 * has them, and, for tensors that share memory, where its elements lie.
 */
export interface ForeignTensor extends TensorMemory {
  /** All its bytes, little endian in C order: in the file itself, or made of what the file has. */
  readonly data: StorageBytes;
}

/** The bytes of the file that a tensor's bytes are, or are made of. */
export function heldBytes({ data }: ForeignTensor): StorageBytes {
  let found = data;
  while (found.storage instanceof MadeStorage) found = found.storage.source;
  return found;
}

/** Where they are in the file. */
export function heldRange(tensor: ForeignTensor): FileRange {
  const { begin, byteLength } = heldBytes(tensor);
  return { position: begin, byteLength };
}
