/** Finds the model's file in a repository on the Hub. */

import { quoteNames, RemoteError, SafetensorsError } from '../errors/errors.js';
import { DEFAULT_MAX_INDEX_BYTE_LENGTH } from '../file/shards/checkpoint-index.js';
import {
  foreignFolder,
  noVariant,
  preferredFile,
  usualFileName,
  usualFileNames,
} from '../file/shards/file-choice.js';
import { PIPELINE_FILE } from '../file/shards/file-names.js';
import { partsError } from '../file/shards/incomplete-models.js';
import { hasWeightsExtension } from '../file/shards/shard-paths.js';
import { type FoundFile, foundKindOf, requireInside } from './found-file.js';
import type { HubAddress } from './hub-address.js';
import { HubRepository, type RepositoryEntry } from './hub-repository.js';
import type { FileStart, RemoteFile, RemoteFolder } from './remote-file.js';
import type { Session } from './session.js';

/** Most repositories have their model in this file. For others a list of the files is requested. */
const USUAL_STEM = 'model';

/** In a folder of a pipeline; its encoders are models of transformers. */
const COMPONENT_STEM = 'diffusion_pytorch_model';
const ENCODER_FOLDER = /(?:encoder|checker)[^/]*$/;

/** Settings for finding the model's file. */
interface HubSourceOptions {
  /** Bytes of the first request for a file. */
  readonly startByteLength: number;
  readonly variant?: string | undefined;
}

/**
 * Sends no request for the path of a file, also of weights in another format: its first bytes will tell. In a
 * repository or folder it requests the usual files and keeps the start of the first that exists.
 *
 * @throws RemoteError
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND`, `SAFETENSORS_DIFFUSERS_PIPELINE`
 */
export async function hubSource(
  session: Session,
  { endpoint, id, isFile }: HubAddress,
  { startByteLength, variant }: HubSourceOptions,
  signal: AbortSignal,
): Promise<FoundFile> {
  const repository = new HubRepository(session, endpoint, id);
  const { path } = id;
  if (isFile || foundKindOf(path) === 'index' || hasWeightsExtension(path)) {
    if (variant !== undefined) throw noVariant('a file', variant);
    return sourceOfPath(repository, path);
  }
  const prefix = path === '' ? '' : `${path}/`;
  const open = async (name: string): Promise<FoundFile> => {
    const file = repository.file(prefix + name);
    const kind = foundKindOf(name);
    const byteLength = kind === 'index' ? DEFAULT_MAX_INDEX_BYTE_LENGTH : startByteLength;
    const start = await file.readStart(byteLength, signal);
    const folder = remoteFolder(repository, prefix + name, file.path);
    return { file: withStart(file, byteLength, start), kind, folder };
  };
  const isComponent = path !== '' && !ENCODER_FOLDER.test(path);
  const first = usualFileName(isComponent ? COMPONENT_STEM : USUAL_STEM, variant);
  try {
    return await open(first);
  } catch (error) {
    if (!isNotFound(error)) throw error;
    const names = await namesInFolder(repository, path, signal);
    if (names !== null) {
      return await open(chooseAmong(names, repository.pageOf(path), variant, { missing: first }));
    }
    // The server has no lists of files.
    for (const name of usualFileNames(variant)) {
      const found = name === first ? null : await open(name).catch(nullIfMissing);
      if (found !== null) return found;
    }
    throw repository.lacksApi ? noUsualFile(error as RemoteError, variant) : error;
  }
}

/** The error for a server that lists no files and has none of the usual ones. */
function noUsualFile(cause: RemoteError, variant: string | undefined): RemoteError {
  const { code, path, status, url } = cause;
  const usual = quoteNames(usualFileNames(variant));
  const message =
    `expected one of the usual files, ${usual}, from a server without an API that lists the repository, found none; ` +
    'name the file, as in hf://org/name/my.safetensors';
  return new RemoteError(code, message, { path, status, url, cause });
}

/** The file with this path in the repository. Sends no request. */
export function sourceOfPath(repository: HubRepository, path: string): FoundFile {
  const file = repository.file(path);
  return { file, kind: foundKindOf(path), folder: remoteFolder(repository, path, file.path) };
}

function nullIfMissing(error: unknown): null {
  if (isNotFound(error)) return null;
  throw error;
}

/** Whether a server answered that it has no such file. */
export function isNotFound(error: unknown): boolean {
  return error instanceof RemoteError && error.code === 'SAFETENSORS_REMOTE_NOT_FOUND';
}

/** The files beside a file. */
function remoteFolder(repository: HubRepository, path: string, shown: string): RemoteFolder {
  const prefix = path.slice(0, path.lastIndexOf('/') + 1);
  return {
    file: (name) => {
      requireInside(name, shown);
      return repository.file(prefix + name);
    },
    names: async (signal) => {
      const found = await namesInFolder(repository, prefix.slice(0, -1), signal);
      return found?.files ?? [];
    },
  };
}

/** The file whose start was read to see whether it exists. */
function withStart(file: RemoteFile, byteLength: number, start: FileStart): RemoteFile {
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

/** Names of the files and of the folders in a folder. */
export interface Names {
  readonly files: readonly string[];
  readonly folders: readonly string[];
}

/** The entries of a folder; null if it is missing, or on a mirror without lists. */
async function namesInFolder(
  repository: HubRepository,
  folder: string,
  signal: AbortSignal,
): Promise<Names | null> {
  const entries = await repository.list(folder, signal).catch(nullIfMissing);
  return entries === null ? null : namesAmong(entries, folder);
}

/** The names of the direct entries of a folder, from a list that may have more. */
export function namesAmong(entries: readonly RepositoryEntry[], folder: string): Names {
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

/**
 * Chooses the model's file or index by variant and the names in a folder, whose page is `path`. The file `missing` is
 * listed but doesn't exist. `advice` is for a folder without a checkpoint.
 *
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND`, `SAFETENSORS_DIFFUSERS_PIPELINE`
 */
export function chooseAmong(
  { files, folders }: Names,
  path: string,
  variant: string | undefined,
  { missing, advice = '' }: { readonly missing?: string; readonly advice?: string } = {},
): string {
  const chosen = preferredFile(files, variant, missing);
  if (chosen !== undefined) return chosen;
  if (files.includes(PIPELINE_FILE)) {
    const advice = `which has several; open one of its folders: ${quoteNames(folders) || 'nothing'}`;
    const message = `expected one checkpoint, found a diffusers pipeline, ${advice}`;
    throw new SafetensorsError('SAFETENSORS_DIFFUSERS_PIPELINE', message, { path });
  }
  const ofParts = partsError(files, path);
  if (ofParts !== undefined) throw ofParts;
  const weights = files.filter((name) => /\.safetensors(?:\.|$)/.test(name));
  const wanted = variant === undefined ? '' : ` of the variant ${variant}`;
  const foreign = weights.length > 0 ? null : foreignFolder([...files, ...folders]);
  if (foreign !== null) {
    const message = `expected a safetensors checkpoint, found ${foreign.description}${advice}`;
    const context = { path, foundFormat: foreign.format };
    throw new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, context);
  }
  const message =
    weights.length === 0
      ? `expected a checkpoint${wanted}, found no safetensors file or index; the folder has ${quoteNames([...files, ...folders]) || 'nothing'}${advice}`
      : `expected one checkpoint${wanted}, found several files to choose from: ${quoteNames(weights)}; open one of them`;
  throw new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, { path });
}
