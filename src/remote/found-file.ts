/** A file that was found, and which paths of files beside it are safe. */

import { FormatError, quoteName } from '../errors/errors.js';
import { urlPathObjection } from '../file/shards/shard-paths.js';
import type { RemoteSource } from './remote-file.js';

/** A source that nobody has to close. */
export type FoundFile = Omit<RemoteSource, 'close' | 'withoutSecrets'>;

/** What a file is by its path: an index is JSON. */
export function foundKindOf(path: string): RemoteSource['kind'] {
  return path.endsWith('.json') ? 'index' : 'file';
}

/**
 * Throws for the path of a shard, or of another file, that leads out of its folder.
 *
 * @throws FormatError `SAFETENSORS_UNSAFE_SHARD_NAME`; `path` is that of the file that names it
 */
export function requireInside(name: string, path: string): void {
  const objection = urlPathObjection(name);
  if (objection === null) return;
  const message = `expected the path of a file below the folder, found ${objection} in ${quoteName(name)}`;
  throw new FormatError('SAFETENSORS_UNSAFE_SHARD_NAME', message, { path });
}
