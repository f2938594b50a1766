/** Finds the model's file in a repository on the Hub. */

import { quoteName, RemoteError, SafetensorsError } from '../errors/errors.js';
import { DEFAULT_MAX_INDEX_BYTE_LENGTH } from '../shards/checkpoint-index.js';
import { chooseFiles, onlyWholeFile } from '../shards/file-choice.js';
import { SHARD_EXTENSION } from '../shards/shard-paths.js';
import { type FoundFile, kindOf, requireInside } from './found-file.js';
import type { HubAddress } from './hub-address.js';
import { HubRepository } from './hub-repository.js';
import type { FileStart, RemoteFile, RemoteFolder } from './remote-file.js';
import type { Session } from './session.js';

/** Names that are asked for one after the other; what else there is shows only a list of the files. */
const USUAL_NAMES = [
  'model.safetensors',
  'model.safetensors.index.json',
  'diffusion_pytorch_model.safetensors',
];

/** In the folders of a pipeline these are the usual names, except for encoders, which are transformers. */
const COMPONENT_NAMES = [
  'diffusion_pytorch_model.safetensors',
  'diffusion_pytorch_model.safetensors.index.json',
  'model.safetensors',
];

const ENCODER_FOLDER = /(?:encoder|checker)[^/]*$/;

/** Names that a message lists. */
const SHOWN_NAMES = 20;

/** Marks a pipeline of diffusers, which has its models in folders. */
const PIPELINE_FILE = 'model_index.json';

/**
 * Asks nothing for the path of a file. In a repository or a folder it asks for the usual files, and keeps
 * the start of the one that is there.
 *
 * @throws RemoteError
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND`, `SAFETENSORS_DIFFUSERS_PIPELINE`
 */
export async function hubSource(
  session: Session,
  { endpoint, id, isFile }: HubAddress,
  startByteLength: number,
  signal: AbortSignal,
): Promise<FoundFile> {
  const repository = new HubRepository(session, endpoint, id);
  const { path } = id;
  if (isFile || path.endsWith(SHARD_EXTENSION) || kindOf(path) === 'index') {
    const file = repository.file(path);
    return { file, kind: kindOf(path), folder: folderOf(repository, path, file.path) };
  }
  const prefix = path === '' ? '' : `${path}/`;
  const open = async (name: string): Promise<FoundFile> => {
    const file = repository.file(prefix + name);
    const kind = kindOf(name);
    const byteLength = kind === 'index' ? DEFAULT_MAX_INDEX_BYTE_LENGTH : startByteLength;
    const start = await file.readStart(byteLength, signal);
    const folder = folderOf(repository, prefix + name, file.path);
    return { file: withStart(file, byteLength, start), kind, folder };
  };
  const isComponent = path !== '' && !ENCODER_FOLDER.test(path);
  const names = isComponent ? COMPONENT_NAMES : USUAL_NAMES;
  for (const name of names) {
    try {
      return await open(name);
    } catch (error) {
      const isMissing =
        error instanceof RemoteError && error.code === 'SAFETENSORS_REMOTE_NOT_FOUND';
      if (!isMissing) throw error;
    }
  }
  return await open(await choose(repository, path, names, signal));
}

/** The files beside a file. */
function folderOf(repository: HubRepository, path: string, shown: string): RemoteFolder {
  const prefix = path.slice(0, path.lastIndexOf('/') + 1);
  return {
    file: (name) => {
      requireInside(name, shown);
      return repository.file(prefix + name);
    },
  };
}

/** The file whose start was read to find out whether it is there. */
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

/** The model's file or index by a list of the files. */
async function choose(
  repository: HubRepository,
  folder: string,
  tried: readonly string[],
  signal: AbortSignal,
): Promise<string> {
  const entries = await repository.list(folder, signal);
  const nameOf = (path: string): string => path.slice(path.lastIndexOf('/') + 1);
  const names = entries.flatMap(({ path, isFolder }) => (isFolder ? [] : [nameOf(path)]));
  const { indexes, single } = chooseFiles(names, undefined);
  const chosen = indexes[0] ?? single ?? onlyWholeFile(names);
  if (chosen !== undefined && !tried.includes(chosen)) return chosen;
  const path = repository.pageOf(folder);
  const folders = entries.flatMap((entry) => (entry.isFolder ? [nameOf(entry.path)] : []));
  if (names.includes(PIPELINE_FILE)) {
    const message = `found a diffusers pipeline, which has several; open one of its folders: ${listed(folders)}`;
    throw new SafetensorsError(
      'SAFETENSORS_DIFFUSERS_PIPELINE',
      `expected one checkpoint, ${message}`,
      { path },
    );
  }
  const files = names.filter((name) => /\.safetensors(?:\.|$)/.test(name));
  const message =
    files.length === 0
      ? `expected a checkpoint, found no safetensors file or index; it has ${listed([...names, ...folders])}`
      : `expected one checkpoint, found several files to choose from: ${listed(files)}; open one of them`;
  throw new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, { path });
}

function listed(names: readonly string[]): string {
  const shown = names.slice(0, SHOWN_NAMES).map(quoteName).join(', ') || 'nothing';
  const more = names.length - SHOWN_NAMES;
  return more > 0 ? `${shown} and ${more} more` : shown;
}
