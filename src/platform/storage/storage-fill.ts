/** Fills a caller's memory with the bytes of a storage, off the event loop where possible. */

import type { AsyncFill } from '../../tensor/storage/computed.js';
import { isLeasable, type Storage } from '../../tensor/storage/storage.js';
import { runAsync } from '../../work/work.js';
import { fillSlots } from '../io/acquirable-file.js';
import { readBytesOf, readFully } from '../io/opened-file.js';

/**
 * Fills memory with the bytes from `begin` of a storage on. Bytes of a file are read on the thread pool; others
 * are copied or made on this thread. The caller looks for changes afterwards.
 */
export function storageFill(storage: Storage, begin: number): AsyncFill {
  if (isLeasable(storage)) {
    const { path } = storage;
    return (target, position) =>
      fillSlots.run(async () => {
        const lease = storage.acquireDescriptor();
        try {
          const read = readBytesOf({ fd: lease.fd, path });
          await runAsync(readFully(read, target, begin + position, path), undefined);
        } finally {
          lease.release();
        }
      });
  }
  return (target, position) => {
    const at = begin + position;
    if (storage.readInto === undefined) target.set(storage.window(at, at + target.length));
    else storage.readInto(target, at);
  };
}
