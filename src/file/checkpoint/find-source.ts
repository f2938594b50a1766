/** What is at a path, or at the id of a repository in the Hub cache: a model, a pipeline, or neither. */

import { join } from 'node:path';
import { requireString } from '../../errors/arguments.js';
import type { SafetensorsError } from '../../errors/errors.js';
import { statAnything, statPath } from '../../platform/io/file-calls.js';
import { requirePath } from '../../platform/io/paths.js';
import { hasCode } from '../../platform/io/system-errors.js';
import type { Work } from '../../work/work.js';
import { findInHubCache, isCached, notInCache } from '../cache/cache.js';
import { hubUri, isHubUri, noRevision, parseHubId, revisionOf } from '../hub/ids.js';
import { isIndexPath, noVariant, requireVariant } from '../shards/file-choice.js';
import { PIPELINE_FILE } from '../shards/file-names.js';
import {
  type CheckpointFiles,
  type FoundFiles,
  indexedFiles,
  type OutsideLink,
  type SelectOptions,
  selectInFolder,
  singleFile,
  usableNames,
} from './find-files.js';
import { localPipelineError, type PathTo } from './pipeline.js';

/** What is at a source. `error` is that of opening it as a model. */
export type FoundSource =
  | FoundFiles
  /** A folder of several models; `path` is that of the folder. */
  | { readonly kind: 'pipeline'; readonly path: string; readonly error: SafetensorsError }
  /** Only parts of a distributed checkpoint; or no file, or no choice among several. */
  | { readonly kind: 'parts' | 'none'; readonly error: SafetensorsError }
  | OutsideLink;

/** Options of {@link findSource}. */
interface FindOptions extends SelectOptions {
  readonly revision?: string | undefined;
}

/** Returns the files of a model, or throws the error for anything else. */
export function modelFiles(found: FoundSource): CheckpointFiles {
  if (found.kind === 'model') return found.files;
  throw found.error;
}

/**
 * Finds what is at a path or an id.
 *
 * @throws FormatError for a bad index, or a link out of the folder; SafetensorsError `SAFETENSORS_NOT_IN_CACHE`, also
 *   for a cached model that is incomplete; RangeError for a variant or a revision where there is none; Error Node's own
 *   `ENOENT` and the like
 */
export function* findSource(path: string | URL, options: FindOptions): Work<FoundSource> {
  const { variant, revision } = options;
  requireVariant(variant);
  if (revision !== undefined) requireString('revision', revision);
  const text = requirePath('path', path);
  if (!(yield* isPath(text))) return yield* findCached(text, options);
  if (revision !== undefined) throw noRevision('a file or folder on this machine', revision);
  return yield* findAt(text, options);
}

/** Whether the path exists: a path comes before an id. */
export function* isPath(text: string): Work<boolean> {
  return !isHubUri(text) && (yield* statAnything(text)) !== undefined;
}

/** Whether a text that is not a path is the id of a cached repository. */
export function* isCachedId(text: string): Work<boolean> {
  const id = isHubUri(text) ? null : parseHubId(text);
  return isHubUri(text) || (id !== null && (yield* isCached(id)));
}

/**
 * Whether a path or an id leads to a pipeline. Searches only folders with a `model_index.json`, so that no index of
 * another folder is read for the answer. False if there is nothing: opening throws the reason.
 *
 * @throws As {@link findSource}
 */
export function* isPipelineAt(text: string, options: FindOptions): Work<boolean> {
  if (!(yield* isPath(text)) && !(yield* isCachedId(text))) return false;
  const folder = yield* findFolder(text, options.revision);
  if ((yield* statAnything(join(folder, PIPELINE_FILE)))?.isFile() !== true) return false;
  return (yield* findSource(text, options)).kind === 'pipeline';
}

/** Returns the folder of a path, or of an id of a repository in the Hub cache. */
export function* findFolder(text: string, revision: string | undefined): Work<string> {
  const id = (yield* isPath(text)) ? null : parseHubId(text);
  return id === null ? text : yield* findInHubCache(id, text, revision);
}

/** Finds what is at a path, which is the caller's or, with `label` and `pathTo`, in the cache. */
function* findAt(
  path: string,
  options: SelectOptions,
  label: string = path,
  pathTo: PathTo = (relative) => join(path, relative),
): Work<FoundSource> {
  if (!(yield* statPath(path)).isDirectory()) {
    if (options.variant !== undefined) throw noVariant('a file', options.variant);
    if (isIndexPath(path)) return yield* indexedFiles(path, options);
    return { kind: 'model', files: singleFile(path) };
  }
  return yield* findInFolder(path, yield* usableNames(path), options, label, pathTo);
}

/** Finds what is in a folder with these names. */
export function* findInFolder(
  folder: string,
  names: readonly string[],
  options: SelectOptions,
  label: string = folder,
  pathTo: PathTo = (relative) => join(folder, relative),
): Work<FoundSource> {
  const found = yield* selectInFolder(folder, names, options);
  if (found.kind === 'none') {
    const error = yield* localPipelineError(folder, names, label, pathTo);
    if (error !== undefined) return { kind: 'pipeline', path: folder, error };
  }
  if ('files' in found || found.kind === 'outside') return found;
  const { kind } = found;
  return { kind, error: found.errorAt((name) => (name === '' ? folder : join(folder, name))) };
}

function* findCached(text: string, options: FindOptions): Work<FoundSource> {
  const id = parseHubId(text);
  // Not an id either: Node's own error reports the missing path.
  if (id === null) return yield* findAt(text, options);
  const path = yield* findInHubCache(id, text, options.revision);
  const requested = { ...id, revision: revisionOf(id, options.revision) };
  const incomplete = (error: Error): SafetensorsError =>
    notInCache(requested, text, `the Hub cache is incomplete: ${error.message}`, error);
  let found: FoundSource;
  try {
    const pathTo: PathTo = (relative) => hubUri(requested, relative) ?? join(path, relative);
    found = yield* findAt(path, options, text, pathTo);
  } catch (error) {
    // Such as a link to a missing blob.
    if (!hasCode(error, ['ENOENT'])) throw error;
    throw incomplete(error as Error);
  }
  if (found.kind === 'none' || found.kind === 'missing-shards') throw incomplete(found.error);
  return found;
}
