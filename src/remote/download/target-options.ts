/** Options of all targets. */

import type { LockOptions } from '../../write/replacement/locks.js';

/** Options for putting files into place. */
export interface TargetOptions extends LockOptions {
  /** Whether files and folders are synced, which makes them survive a loss of power. */
  readonly durable: boolean;
}
