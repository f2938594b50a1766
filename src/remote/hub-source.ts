/** Finds the model's file in a repository on the Hub. */

import { absenceIn } from '../errors/absence.js';
import type { Advice } from '../errors/advice.js';
import { quoteNames, RemoteError } from '../errors/errors.js';
import { DEFAULT_MAX_INDEX_BYTE_LENGTH } from '../file/shards/checkpoint-index.js';
import { canonicalFileName, canonicalFileNames, noVariant } from '../file/shards/file-choice.js';
import { PIPELINE_FILE } from '../file/shards/file-names.js';
import { chooseModel, type NoModel, type PartialModel } from '../file/shards/model-choice.js';
import { filesByFolder, openingCall, pipelineError } from '../file/shards/pipeline-files.js';
import { hasWeightsExtension, requireInside } from '../file/shards/shard-paths.js';
import {
  chosenSource,
  distributedSource,
  driveDecision,
  indexReader,
  listedIn,
  type ReadIndexOptions,
  type SourceAcceptance,
} from './choose-files.js';
import { type FoundFile, foundKindOf, type NoRemoteModel, withStart } from './found-file.js';
import type { HubAddress } from './hub-address.js';
import type { RemoteFolder } from './remote-file.js';
import type { ListedEntry, Repository } from './repository.js';

/** Most repositories have their model in this file. For others a list of the files is requested. */
const CANONICAL_STEM = 'model';

/** In a folder of a pipeline; its encoders are models of transformers. */
const COMPONENT_STEM = 'diffusion_pytorch_model';
const ENCODER_FOLDER = /(?:encoder|checker)[^/]*$/;

/** Settings for finding the model's file. */
interface HubSourceOptions extends SourceAcceptance {
  /** Bytes of the first request for a file. */
  readonly startByteLength: number;
  readonly variant?: string | undefined;
}

/**
 * Sends no request for the path of a file, also of weights in another format: its first bytes will tell. In a
 * repository or folder it requests the list of files and the usual file at once, and keeps the start of that.
 *
 * @throws RemoteError; FormatError for a bad index
 */
export async function hubSource(
  repository: Repository,
  { id, isFile }: HubAddress,
  { startByteLength, variant, acceptsIncomplete, acceptsDistributed }: HubSourceOptions,
  signal: AbortSignal,
): Promise<FoundFile | NoRemoteModel> {
  const { path } = id;
  if (isFile || foundKindOf(path) !== 'file' || hasWeightsExtension(path)) {
    if (variant !== undefined) throw noVariant('a file', variant);
    return sourceOfPath(repository, path);
  }
  const prefix = path === '' ? '' : `${path}/`;
  const open = async (name: string): Promise<FoundFile> => {
    const file = repository.file(prefix + name);
    const kind = foundKindOf(name);
    const byteLength = kind === 'index' ? DEFAULT_MAX_INDEX_BYTE_LENGTH : startByteLength;
    const start = await file.readStart(byteLength, signal);
    const folder = remoteFolder(repository, prefix, file.path);
    return { file: withStart(file, byteLength, start), kind, folder };
  };
  const isComponent = path !== '' && !ENCODER_FOLDER.test(path);
  const first = canonicalFileName(isComponent ? COMPONENT_STEM : CANONICAL_STEM, variant);
  const listing = namesInFolder(repository, path, signal);
  // An error of the file is thrown first.
  listing.catch(() => {});
  let missing: RemoteError | undefined;
  const started = await open(first).catch((error: unknown) => {
    if (absenceIn(error) === undefined) throw error;
    missing = error as RemoteError;
    return null;
  });
  let unlisted: RemoteError | undefined;
  const names = await listing.catch((error: unknown) => {
    if (!(error instanceof RemoteError)) throw error;
    // The file that was found can be opened without the list.
    if (started === null && !isRejectedList(error)) throw error;
    unlisted = error;
    return null;
  });
  if (names !== null) {
    // A listed file that is not there would be chosen again.
    const files = started === null ? names.files.filter((name) => name !== first) : names.files;
    const options = { variant, acceptsIncomplete, acceptsDistributed, signal };
    const found = await chooseIn(repository, path, { ...names, files }, options);
    if ('error' in found) return found;
    return found.file.path === started?.file.path ? { ...started, chosen: found.chosen } : found;
  }
  if (started !== null) return started;
  // The server has no lists of files.
  for (const name of canonicalFileNames(variant)) {
    const found = name === first ? null : await open(name).catch(nullIfMissing);
    if (found !== null) return found;
  }
  if (unlisted !== undefined) throw unlisted;
  throw repository.lacksApi ? noCanonicalFile(missing as RemoteError, variant) : missing;
}

/** Chooses the model's files among the names in a folder. */
async function chooseIn(
  repository: Repository,
  path: string,
  names: Names,
  options: ReadIndexOptions & Pick<HubSourceOptions, 'variant'>,
): Promise<FoundFile | NoRemoteModel> {
  const prefix = path === '' ? '' : `${path}/`;
  const folder = remoteFolder(repository, prefix, repository.pageOf(path), names);
  const decision = chooseModel(names, options);
  const read = indexReader(folder.file, options);
  const chosen = await driveDecision(decision, read, listedIn(names.files));
  if ('model' in chosen) return chosenSource(chosen, folder);
  const distributed = distributedSource(chosen, names.files, folder, options);
  if (distributed !== undefined) return distributed;
  return await noModelIn(repository, path, names, chosen, options.signal);
}

/** A folder without a model, which may be a pipeline. */
export async function noModelIn(
  repository: Repository,
  folder: string,
  { files }: Names,
  none: PartialModel | NoModel,
  signal: AbortSignal,
): Promise<NoRemoteModel> {
  const prefix = folder === '' ? '' : `${folder}/`;
  const page = repository.pageOf(folder);
  if (none.kind === 'none' && files.includes(PIPELINE_FILE)) {
    const entries = await repository.list(folder, signal, true);
    const byFolder = filesByFolder(filesBelow(entries, prefix));
    const callFor = (relative: string, variant: string | undefined): Advice =>
      openingCall('open', repository.uriOf(relative), variant);
    const error = pipelineError(files, byFolder, callFor, page);
    if (error !== undefined) return { kind: 'pipeline', error };
  }
  const pathOf = (name: string): string =>
    name === '' ? page : repository.file(prefix + name).path;
  const error = none.errorAt(pathOf);
  // Parts of a distributed checkpoint are no model, even if all of them are there.
  if (none.kind === 'parts') return { kind: 'parts', error };
  return { kind: none.kind, error: repository.incompleteError(error) };
}

/** The files of a list by their paths below a folder. */
export function filesBelow(
  entries: readonly ListedEntry[],
  prefix: string,
): { readonly name: string }[] {
  return entries.flatMap(({ path, isFolder }) =>
    isFolder || !path.startsWith(prefix) ? [] : [{ name: path.slice(prefix.length) }],
  );
}

/** The error for a server that lists no files and has none of the usual ones. */
function noCanonicalFile(cause: RemoteError, variant: string | undefined): RemoteError {
  const { code, path, status, url } = cause;
  const usual = quoteNames(canonicalFileNames(variant));
  const message =
    `expected one of the usual files, ${usual}, from a server without an API that lists the repository, found none; ` +
    'name the file, as in hf://org/name/my.safetensors';
  return new RemoteError(code, message, { path, status, url, cause });
}

/** The file with this path in the repository. Sends no request. */
export function sourceOfPath(repository: Repository, path: string): FoundFile {
  const file = repository.file(path);
  const prefix = path.slice(0, path.lastIndexOf('/') + 1);
  return { file, kind: foundKindOf(path), folder: remoteFolder(repository, prefix, file.path) };
}

function nullIfMissing(error: unknown): null {
  if (absenceIn(error) !== undefined) return null;
  throw error;
}

/** Whether a server answered a request for a list as one that only serves files: by 403, or by a web page. */
function isRejectedList({ status, foundFormat }: RemoteError): boolean {
  return status === 403 || foundFormat === 'html';
}

/** The files of a folder, whose names may be known. `shown` is the path in errors about their names. */
export function remoteFolder(
  repository: Repository,
  prefix: string,
  shown: string,
  known?: Pick<Names, 'files'>,
): RemoteFolder {
  return {
    file: (name) => {
      requireInside(name, shown);
      return repository.file(prefix + name);
    },
    names: async (signal) => {
      const found = known ?? (await namesInFolder(repository, prefix.slice(0, -1), signal));
      return found?.files ?? [];
    },
  };
}

/** Names of the files and of the folders in a folder. */
export interface Names {
  readonly files: readonly string[];
  readonly folders: readonly string[];
}

/** The entries of a folder; null if it is missing, or on a mirror without lists. */
async function namesInFolder(
  repository: Repository,
  folder: string,
  signal: AbortSignal,
): Promise<Names | null> {
  const entries = await repository.list(folder, signal).catch(nullIfMissing);
  return entries === null ? null : namesAmong(entries, folder);
}

/** The names of the direct entries of a folder, from a list that may have more. */
export function namesAmong(entries: readonly ListedEntry[], folder: string): Names {
  const prefix = folder === '' ? '' : `${folder}/`;
  const here = entries.filter(({ path }) => {
    return path.startsWith(prefix) && !path.slice(prefix.length).includes('/');
  });
  const namesOf = (areFolders: boolean): string[] =>
    here.flatMap(({ path, isFolder }) =>
      isFolder === areFolders ? [path.slice(prefix.length)] : [],
    );
  return { files: namesOf(false), folders: namesOf(true) };
}
