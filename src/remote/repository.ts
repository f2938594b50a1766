/**
 * The interface of a Hub repository at one revision. Types only: `hub-repository` sends requests,
 * `node/cached-repository` reads the Hub cache.
 */

import type { SafetensorsError } from '../errors/errors.js';
import type { RemoteFile } from './remote-file.js';

/** A file or a folder in a list. */
export interface ListedEntry {
  /** Path from the root of the repository. */
  readonly path: string;
  readonly isFolder: boolean;
}

/** A repository at one revision. */
export interface Repository {
  /** Whether the server has answered as one without the Hub's API: its files may still be there. */
  readonly lacksApi: boolean;
  /** The page of a folder, for messages. */
  pageOf(folder: string): string;
  /** The id of a file or folder by its path below that of the id; the address of its page where there is no id. */
  uriOf(relative: string): string;
  /** The file with this path, which the caller has checked. */
  file(path: string): RemoteFile;
  /** The entries of a folder; with `isDeep` also of all folders below it. */
  list(folder: string, signal: AbortSignal, isDeep?: boolean): Promise<readonly ListedEntry[]>;
  /** The error to throw where the files of a folder make no complete model: a cache may lack some of the files. */
  incompleteError(error: SafetensorsError): SafetensorsError;
}
