/** Reads parts of stored tensors by position, on the thread pool. */

import { allocate } from '../../errors/out-of-memory.js';
import { storageFill } from '../../platform/storage/storage-fill.js';
import type { Storage } from '../../tensor/storage/storage.js';
import { limit, Slots } from '../../work/slots.js';
import type { Stored } from './stored-digests.js';
import type { StoredBytes } from './stored-reads.js';

/** Codes to read at once, and as many ahead: those of some pieces of the new file. */
const WINDOW_BYTE_LENGTH = 2 ** 21;

/** As many as the thread pool has threads. */
const READS_AT_ONCE = 4;

/** The first byte of a tensor. */
interface Place {
  readonly storage: Storage;
  readonly position: number;
}

/** The reading of tensors at these places. */
export function storedReader<Tensor extends Stored>(
  placeOf: (tensor: Tensor) => Place,
): Pick<StoredBytes<Tensor>, 'windowByteLength' | 'read'> {
  return {
    windowByteLength: WINDOW_BYTE_LENGTH,
    read: async (parts) => {
      const pieces = parts.map(({ tensor, begin, byteLength }) => {
        const { name } = tensor;
        const { storage, position } = placeOf(tensor);
        const bytes = allocate(Uint8Array, byteLength, { path: storage.path, tensor: name });
        return { bytes, begin, fill: storageFill(storage, position) };
      });
      await limit(pieces, new Slots(READS_AT_ONCE), async ({ bytes, begin, fill }) => {
        await fill(bytes, begin);
      });
      return pieces.map(({ bytes }) => bytes);
    },
  };
}
