/** A found file, and its kind. */

import type { SafetensorsError } from '../errors/errors.js';
import { isIndexPath } from '../file/shards/file-choice.js';
import type { NoModel, PartialModel } from '../file/shards/model-choice.js';
import type { FileStart, RemoteFile, RemoteSource } from './remote-file.js';

/** A source that needs no closing. */
export type FoundFile = Omit<RemoteSource, 'close' | 'withoutSecrets'>;

/** A folder without a model to open; `error` is that of opening it. */
export interface NoRemoteModel {
  readonly kind: 'pipeline' | PartialModel['kind'] | NoModel['kind'];
  readonly error: SafetensorsError;
}

/** Returns what was found, or throws the error of a folder without a model. */
export function requireModel<Found extends object>(found: Found | NoRemoteModel): Found {
  if ('error' in found) throw found.error;
  return found;
}

/** The kind of a file by its path: an index is JSON, and `.metadata` lists the pieces of a distributed checkpoint. */
export function foundKindOf(path: string): 'file' | 'index' | 'distributed' {
  if (/(?:^|\/)\.metadata$/.test(path)) return 'distributed';
  return isIndexPath(path) ? 'index' : 'file';
}

/** The file whose start was read to see whether it exists. */
export function withStart(file: RemoteFile, byteLength: number, start: FileStart): RemoteFile {
  let kept: FileStart | undefined = start;
  return {
    path: file.path,
    readStart: async (wanted, signal) => {
      const given = wanted === byteLength ? kept : undefined;
      kept = undefined;
      return given ?? (await file.readStart(wanted, signal));
    },
    readInto: (...reading) => file.readInto(...reading),
  };
}
