/** `watch`: reports new versions of the checkpoint at a path. */

import {
  type OptionNames,
  requireFunction,
  requireInteger,
  requireOptions,
  requireSignal,
} from '../../errors/arguments.js';
import { requirePath } from '../../platform/io/paths.js';
import { requireStorageOptions } from '../../platform/storage/open.js';
import { runSync, type Work } from '../../work/work.js';
import {
  checksPath,
  OPEN_ASYNC_OPTIONS,
  type OpenAsyncOptions,
  safeOpenAsync,
} from '../checkpoint/open.js';
import { type Version, versionAt } from './version.js';
import { CheckpointWatcher, type OnChange, type Watcher } from './watcher.js';

/** Options of {@link watch}: those of opening, and times. */
export interface WatchOptions extends Omit<OpenAsyncOptions, 'verify' | 'expectedHash'> {
  /** Closes the watcher. */
  readonly signal?: AbortSignal | undefined;
  /**
   * Milliseconds between two looks at the path where the file system reports no changes, such as on a network; 2,000 by
   * default.
   */
  readonly interval?: number | undefined;
  /** Milliseconds for which the files must stay unchanged before they are opened; 100 by default. */
  readonly settle?: number | undefined;
}

const { verify: _verify, expectedHash: _expectedHash, ...OPENING_OPTIONS } = OPEN_ASYNC_OPTIONS;

const WATCH_OPTIONS: OptionNames<WatchOptions> = {
  ...OPENING_OPTIONS,
  interval: true,
  settle: true,
};

/** The longest time of a timer. */
const MAX_MILLISECONDS = 2 ** 31 - 1;

/**
 * Watches the checkpoint at a path, a link, or the id of a repository in the Hub cache, as `safeOpen` opens it. Calls
 * `onChange(null, next)` after the checkpoint was replaced or re-pointed: a rename over the file, the switch of a
 * symbolic link, a new index, a new commit of a cached repository.
 *
 * `next` is the open new version, after `next.verify()`, which also compares declared digests. Close it when the next
 * version replaces it. Bursts of changes are one change: files are opened once they have been the same for `settle`
 * milliseconds, and `next` has all files open that were at the path before and after. If only some shards of an index
 * were replaced, as by a copy under way, they must be the same, and no download active, for 100 × `settle`.
 *
 * `onChange(error, null)` reports files that do not open or verify, once for each version, when they have been the same
 * for 10 × `settle`. Keep the old version; the watch goes on. A path without a checkpoint can be watched, too. Versions
 * are compared with that at the time of the call: call `watch` first, then open the first version, to miss none. Calls
 * don't overlap: the watcher waits for a promise that `onChange` returns.
 *
 * Changes are noticed by events of the folders on Linux, macOS and Windows; where there are none, by looking at the
 * files, every `interval` milliseconds. An active watch keeps the process alive until `close()`, unless you call
 * `unref()`.
 *
 * @throws TypeError, RangeError for unusable arguments; `signal.reason`
 *
 * @example
 * ```ts
 * const watcher = watch('model.safetensors', (error, next) => {
 *   if (error !== null) return console.error(error); // the old version stays
 *   current.close(); // tensors of running requests stay valid
 *   current = next;
 * });
 * let current = safeOpen('model.safetensors');
 * console.log(current.keys()); // → [ 'embed.weight', 'norm.weight' ]
 * watcher.close();
 * ```
 */
export function watch(path: string | URL, onChange: OnChange, options: WatchOptions = {}): Watcher {
  const place = requirePath('path', path);
  requireFunction('onChange', onChange);
  requireOptions(options, WATCH_OPTIONS);
  const { signal, interval = 2000, settle = 100, ...opening } = options;
  requireInteger('interval', interval, 1, MAX_MILLISECONDS);
  requireInteger('settle', settle, 0, MAX_MILLISECONDS);
  requireSignal(signal);
  requireStorageOptions(opening);
  checksPath(place, opening);
  signal?.throwIfAborted();
  const find = (): Work<Version> => versionAt(place, opening);
  const known = runSync(find());
  // Options that no later version at this path could use.
  if (String(Object(known.error).code).startsWith('ERR_')) throw known.error;
  const open = (ending: AbortSignal) => safeOpenAsync(place, { ...opening, signal: ending });
  return new CheckpointWatcher({ find, open, onChange, interval, settle, signal }, known);
}
