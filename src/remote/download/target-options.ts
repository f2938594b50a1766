/** What all targets are told. */

import type { LockOptions } from '../../write/replacement/locks.js';

/** How files are put into their places. */
export interface TargetOptions extends LockOptions {
  /** Whether files and folders are synced, which makes them survive a loss of power. */
  readonly durable: boolean;
}
