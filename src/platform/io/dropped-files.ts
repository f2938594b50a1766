/** Frees descriptors and addresses of closed files, and of files dropped without `close()`, when they run out. */

import { immediate, runSync, type Work } from '../../work/work.js';
import { addon } from '../addon/addon.js';
import { reclaimDescriptors, retainFewer } from './reclaimable-descriptors.js';
import { hasCode } from './system-errors.js';

/** Errors of a process without free descriptors or addresses. */
const NONE_LEFT: readonly string[] = ['EMFILE', 'ENOMEM'];

/**
 * Runs `open`. Without free descriptors or addresses, collects garbage to free those of dropped files and tries once
 * more; then reclaims those that closed files and open shards can spare, as long as there are any.
 */
export function* retryWithoutDropped<Result>(open: () => Work<Result>): Work<Result> {
  try {
    return yield* open();
  } catch (error) {
    if (!hasCode(error, NONE_LEFT)) throw error;
  }
  (globalThis as { readonly gc?: () => void }).gc?.();
  addon()?.releaseDropped();
  for (;;) {
    try {
      return yield* open();
    } catch (error) {
      if (!hasCode(error, NONE_LEFT)) throw error;
      const count = reclaimDescriptors();
      if (count === 0) throw error;
      if (hasCode(error, ['EMFILE'])) retainFewer(count);
      // Again and again: other calls may take the reclaimed ones first.
    }
  }
}

/** Runs a system call that needs a descriptor on this thread, again as above. */
export function retryHere<Result>(open: () => Result): Result {
  return runSync(retryWithoutDropped(() => immediate(open)));
}
