/** A found file, and its kind. */

import { isIndexPath } from '../file/shards/file-choice.js';
import type { RemoteSource } from './remote-file.js';

/** A source that needs no closing. */
export type FoundFile = Omit<RemoteSource, 'close' | 'withoutSecrets'>;

/** The kind of a file by its path: an index is JSON. */
export function foundKindOf(path: string): 'file' | 'index' {
  return isIndexPath(path) ? 'index' : 'file';
}
