/** Rejects remote files that are not a model: parts of distributed checkpoints, and deltas. */

import {
  incompleteModelError,
  needsSiblings,
  partWithSibling,
  requireModel,
} from '../file/shards/incomplete-models.js';
import { SHARD_EXTENSION } from '../file/shards/shard-paths.js';
import { isOfFile } from '../file/shards/verification-error.js';
import type { Header } from '../header/header.js';
import { readRemoteHeader } from './read-header.js';
import type { RemoteFile } from './remote-file.js';

/** The files in the folder of a file. */
export interface RemoteSiblings {
  file(name: string, signal: AbortSignal): RemoteFile | Promise<RemoteFile>;
  /** The names of the files; missing where they cannot be listed. */
  names?(signal: AbortSignal): Promise<readonly string[]>;
}

/** A remote file whose header was read. */
interface RemoteFileWithHeader {
  readonly header: Header;
  /** Its name, without directories. */
  readonly name: string;
  readonly path: string;
  /** Whether an index lists the file. */
  readonly isIndexed: boolean;
}

/**
 * Throws for a file that is not a model. Fetches headers of siblings only for a file whose metadata or name
 * is that of a rank's file, and where the folder can be listed.
 *
 * @throws FormatError `SAFETENSORS_DISTRIBUTED_PART`, `SAFETENSORS_DELTA`
 */
export async function requireRemoteModel(
  { header, name, path, isIndexed }: RemoteFileWithHeader,
  folder: RemoteSiblings | null,
  signal: AbortSignal,
): Promise<void> {
  requireModel(header, { name, isIndexed }, path);
  if (isIndexed || folder?.names === undefined || !needsSiblings(header, name)) return;
  for (const sibling of await folder.names(signal)) {
    if (sibling === name || !sibling.endsWith(SHARD_EXTENSION)) continue;
    const file = await folder.file(sibling, signal);
    const other = await readRemoteHeader(file, undefined, signal).catch(unlessBad);
    const found = other === undefined ? null : partWithSibling(header, name, other, sibling);
    if (found !== null) throw incompleteModelError(found, 'file', path);
  }
}

/** Undefined for siblings that cannot be read: only the opened file has to be valid. */
function unlessBad(error: unknown): undefined {
  if (!isOfFile(error)) throw error;
}
