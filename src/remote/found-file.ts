/** A found file, and the check of paths of files beside it. */

import { FormatError, quoteName } from '../errors/errors.js';
import { isIndexPath } from '../file/shards/file-choice.js';
import { urlPathObjection } from '../file/shards/shard-paths.js';
import type { RemoteSource } from './remote-file.js';

/** A source that needs no closing. */
export type FoundFile = Omit<RemoteSource, 'close' | 'withoutSecrets'>;

/** The kind of a file by its path: an index is JSON. */
export function foundKindOf(path: string): 'file' | 'index' {
  return isIndexPath(path) ? 'index' : 'file';
}

/**
 * Throws if the path of a shard or another file leaves the folder.
 *
 * @throws FormatError `SAFETENSORS_UNSAFE_SHARD_NAME`; `path` is the file that names the shard
 */
export function requireInside(name: string, path: string): void {
  const objection = urlPathObjection(name);
  if (objection === null) return;
  const message = `expected the path of a file below the folder, found ${objection} in ${quoteName(name)}`;
  throw new FormatError('SAFETENSORS_UNSAFE_SHARD_NAME', message, { path });
}
