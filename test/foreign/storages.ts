/** Bytes in memory as both kinds of storages. */
import { ComputedStorage, type StorageBytes } from '../../src/tensor/storage/computed.js';
import { MemoryStorage } from '../../src/tensor/storage/memory.js';

/** A storage that gives views, as a mapping does. */
export function viewed(bytes: Uint8Array<ArrayBuffer>): StorageBytes {
  return { storage: new MemoryStorage(bytes, 2 ** 32), begin: 0, byteLength: bytes.length };
}

/** A storage that copies each range, as positioned reads do; `reads` gets the length of each. */
export function copied(bytes: Uint8Array<ArrayBuffer>, reads: number[] = []): StorageBytes {
  const storage = new ComputedStorage(bytes.length, viewed(bytes), (target, position) => {
    reads.push(target.length);
    target.set(bytes.subarray(position, position + target.length));
  });
  return { storage, begin: 0, byteLength: bytes.length };
}
