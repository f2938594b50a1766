/** Descriptors and addresses of files that were dropped without `close()`, or closed. */

import { addon } from '../addon/addon.js';
import { giveUpSpares } from './spare-descriptors.js';
import type { Steps } from './steps.js';
import { hasCode } from './system-errors.js';

/** What the system answers when a process has no more descriptors, or no more addresses. */
const NONE_LEFT: readonly string[] = ['EMFILE', 'ENOMEM'];

/**
 * Runs `open`. When the process has no descriptor or no addresses left for it, collects garbage, takes
 * those of dropped files, and tries once more; then with those that closed files can do without.
 */
export function* retryWithoutDropped<Result>(open: () => Steps<Result>): Steps<Result> {
  try {
    return yield* open();
  } catch (error) {
    if (!hasCode(error, NONE_LEFT)) throw error;
  }
  (globalThis as { readonly gc?: () => void }).gc?.();
  addon()?.releaseDropped();
  try {
    return yield* open();
  } catch (error) {
    if (!hasCode(error, NONE_LEFT) || !giveUpSpares()) throw error;
  }
  return yield* open();
}
