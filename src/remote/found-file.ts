/** A found file, and its kind. */

import type { SafetensorsError } from '../errors/errors.js';
import { isIndexPath } from '../file/shards/file-choice.js';
import type { NoModel, PartialModel } from '../file/shards/model-choice.js';
import type { RemoteSource } from './remote-file.js';

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

/** The kind of a file by its path: an index is JSON. */
export function foundKindOf(path: string): 'file' | 'index' {
  return isIndexPath(path) ? 'index' : 'file';
}
