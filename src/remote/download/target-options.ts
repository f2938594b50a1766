/** Options of all targets. */

import type { LockOptions } from '../../write/replacement/locks.js';
import type { OverwriteOptions } from '../../write/replacement/replaced-files.js';

/** A repository of the Hub. */
export interface Repository {
  /** Its name in a cache, such as `models--org--name`. */
  readonly name: string;
  /** Path of the downloaded folder in it, with a slash at its end; empty for its root. */
  readonly prefix: string;
  /** The commit of the download. */
  readonly commit: string;
  /**
   * Whether it has this commit; false when the Hub cannot answer. Sends a request unless it is the commit of the
   * download.
   */
  hasCommit(commit: string, signal: AbortSignal): Promise<boolean>;
}

/** Options for putting files into place. */
export interface TargetOptions extends LockOptions, OverwriteOptions {
  /** The repository of the source, and its folder; undefined for sources elsewhere. */
  readonly repository?: Repository | undefined;
  /** Whether files and folders are synced, which makes them survive a loss of power. */
  readonly durable: boolean;
  /** Whether the target is a damaged copy: correct files that links point to stay, and files of no record are its. */
  readonly repair?: boolean | undefined;
}
