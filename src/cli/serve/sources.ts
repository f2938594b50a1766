/** What `serve` serves of a source: one model, those of a pipeline, or all models below a folder. */

import { readdir } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { argumentRangeError } from '../../errors/arguments.js';
import { isHubUri } from '../../file/hub/ids.js';
import { indexesAmong, isSafetensorsName, SHARD_NUMBER } from '../../file/shards/file-choice.js';
import { isDdufName } from '../../file/shards/file-names.js';
import { isOfFile } from '../../file/shards/file-problems.js';
import { hasWeightsExtension } from '../../file/shards/shard-paths.js';
import { realPath, statAnything } from '../../platform/io/file-calls.js';
import { runAsync } from '../../work/work.js';
import { hasPieces, isPipelineFolder, weightsIn } from '../sources/model-folders.js';
import { distributedFile, isRemote, localPath } from '../sources/open-source.js';
import { openVirtualFile, openVirtualPipeline } from '../sources/virtual-file.js';
import {
  type SkippedPath,
  type WalkedFile,
  type WalkedFolder,
  walkFolder,
} from '../sources/walk-folder.js';
import {
  modelsAt,
  type NoModelFound,
  type ServedSource,
  type SourceChoice,
} from './model-files.js';

const LOST_SHARD = 'a shard without the index of its model';
const FOREIGN_SHARD = 'a shard of a model of another format';
const NEXT_TO_MODEL = 'next to the model of its folder; serve it by its path';
const TOO_MANY = 'not among the first 100 files of other formats; serve it by its path';

/** Files of other formats that are opened in a folder: each stays open. */
const MAX_FOREIGN = 100;

/** The models of the sources, and what was skipped in folders of models. */
interface ServedModels {
  readonly sources: readonly ServedSource[];
  readonly skipped: readonly SkippedPath[];
}

/**
 * Finds the models below a folder. A folder is the model that `safeOpen` opens; its other safetensors files are models,
 * too. Models that cannot be opened are skipped.
 *
 * @throws `signal.reason`; errors that are not about the files, such as `EMFILE`
 */
async function modelsBelow(
  name: string,
  path: string,
  choice: SourceChoice,
  signal: AbortSignal,
): Promise<ServedModels> {
  const { folders, skipped } = await walkFolder(path, signal);
  const search = new Search(choice, signal, skipped);
  let pipeline: string | undefined;
  for (const folder of folders) {
    const isComponent = pipeline !== undefined && folder.path.startsWith(pipeline);
    if (isComponent) continue;
    if (isPipelineFolder(folder)) pipeline = join(folder.path, '/');
    await search.look(folder, folder.name === '' ? name : `${name}/${folder.name}`);
  }
  return search;
}

class Search implements ServedModels {
  readonly sources: ServedSource[] = [];
  readonly skipped: SkippedPath[];
  readonly #choice: SourceChoice;
  readonly #signal: AbortSignal;
  /** Paths of served files, with all links followed. */
  readonly #served = new Set<string>();
  #foreign = 0;

  constructor(choice: SourceChoice, signal: AbortSignal, skipped: readonly SkippedPath[]) {
    this.#choice = choice;
    this.#signal = signal;
    this.skipped = [...skipped];
  }

  async look(folder: WalkedFolder, label: string): Promise<void> {
    if (await this.#lookAtPieces(folder, label)) return;
    const weights = weightsIn(folder);
    const isPipeline = isPipelineFolder(folder);
    if (weights.length === 0 && !isPipeline) return;
    try {
      const found = await modelsAt(label, folder.path, this.#choice, this.#signal);
      // Several files, or files of other formats: each of them is looked at below.
      const isExplained = this.#choice.variant === undefined && !isPipeline;
      if (!('error' in found) || !isExplained) this.#add(folder.path, found);
    } catch (error) {
      if (!isOfFile(error)) throw error;
      this.#skip(folder.path, error);
    }
    if (this.#choice.variant !== undefined) return;
    const indexes = indexesAmong(weights.map((file) => file.name));
    const isIndex = ({ name }: WalkedFile): boolean => indexes.includes(name);
    // First, because their shards are not separate models.
    for (const file of weights.filter(isIndex)) await this.#lookAt(file, label);
    for (const file of weights.filter((one) => !isIndex(one))) {
      await this.#lookAtWeights(file, label);
    }
  }

  /** Adds the distributed checkpoint in a folder. Returns whether there is one, valid or not. */
  async #lookAtPieces(folder: WalkedFolder, label: string): Promise<boolean> {
    if (this.#choice.variant !== undefined || !hasPieces(folder)) return false;
    const { path } = folder;
    const list = await distributedFile(path);
    if (list === undefined) return false;
    if (this.#foreign++ < MAX_FOREIGN) await this.#lookAtForeign(path, label, list);
    else this.skipped.push({ path, reason: TOO_MANY });
    return true;
  }

  async #lookAtWeights(file: WalkedFile, label: string): Promise<void> {
    const { name, path } = file;
    if (this.#served.has(file.realPath)) return;
    const isForeign = !isSafetensorsName(name);
    if (SHARD_NUMBER.test(name)) {
      this.skipped.push({ path, reason: isForeign ? FOREIGN_SHARD : LOST_SHARD });
    } else if (!isForeign) await this.#lookAt(file, label);
    else if (this.#foreign++ < MAX_FOREIGN)
      await this.#lookAtForeign(path, `${label}/${name}`, path);
    else this.skipped.push({ path, reason: TOO_MANY });
  }

  /** `other` is the file whose changes are noticed. */
  async #lookAtForeign(path: string, label: string, other: string): Promise<void> {
    try {
      this.#add(path, await foreignSources(label, path, other, this.#signal));
    } catch (error) {
      if (!isOfFile(error)) throw error;
      this.#skip(path, error);
    }
  }

  async #lookAt({ name, path, realPath }: WalkedFile, label: string): Promise<void> {
    if (this.#served.has(realPath)) return;
    try {
      this.#add(path, await modelsAt(`${label}/${name}`, path, {}, this.#signal));
    } catch (error) {
      if (!isOfFile(error)) throw error;
      this.#skip(path, error);
    }
  }

  #add(path: string, found: readonly ServedSource[] | NoModelFound): void {
    if ('error' in found) {
      this.#skip(path, found.error);
      return;
    }
    this.sources.push(...found);
    for (const { files } of found) for (const one of files) this.#served.add(one.path);
  }

  #skip(path: string, { message }: Error): void {
    this.skipped.push({ path, reason: message });
  }
}

/** The files of other formats next to the model of a folder. */
async function foreignFilesIn(folder: string): Promise<SkippedPath[]> {
  const names = await readdir(folder);
  return names
    .filter((name) => (hasWeightsExtension(name) && !isSafetensorsName(name)) || isDdufName(name))
    .map((name) => ({ path: join(folder, name), reason: NEXT_TO_MODEL }));
}

/**
 * A source of another format as a safetensors file; of an archive one for each of its models. `other` is the file whose
 * changes are noticed.
 */
async function foreignSources(
  name: string,
  path: string,
  other: string,
  signal: AbortSignal,
): Promise<ServedSource[]> {
  const found = isDdufName(path)
    ? Array.from(
        await openVirtualPipeline(path, signal),
        ([folder, virtual]) => [`${name}/${folder}`, `${folder}.safetensors`, virtual] as const,
      )
    : [[name, `${name}.safetensors`, await openVirtualFile(path, signal)] as const];
  const file = await runAsync(realPath(other), signal);
  return found.map(([label, fileName, virtual]) => ({
    name: label,
    files: [{ name: basename(fileName), path: file, virtual }],
    missing: [],
  }));
}

/**
 * Finds the files of a source, which is a path or the id of a repository in the Hub cache; one source for each
 * model of a pipeline, and for each model in a folder that holds several, or whose subfolders hold models. Reads
 * indexes, and opens files of weights without reading them. A file of another format, or the folder of a distributed
 * checkpoint, is served as a safetensors file.
 *
 * @throws As `safeOpen`, but not for missing shards; SafetensorsError `SAFETENSORS_NOT_A_REGULAR_FILE`; as `open` for
 *   files of other formats; RangeError `ERR_OUT_OF_RANGE` for the URL of a server
 */
export async function servedSources(
  source: string,
  choice: SourceChoice,
  signal: AbortSignal,
): Promise<ServedModels> {
  if (isRemote(source) && !isHubUri(source)) {
    const expected = 'a path or the id of a cached repository: the page itself opens addresses';
    // A signed address has its secret there.
    throw argumentRangeError('SOURCE', expected, source.replace(/[?#].*/s, ''));
  }
  const path = isHubUri(source) ? source : localPath(source);
  const stats = isHubUri(path) ? undefined : await runAsync(statAnything(path), signal);
  const name = isHubUri(path) ? path.slice('hf://'.length) : stats ? basename(resolve(path)) : path;
  const models = await modelsAt(name, path, choice, signal);
  if (!('error' in models)) {
    const skipped = stats?.isDirectory() === true ? await foreignFilesIn(path) : [];
    return { sources: models, skipped };
  }
  const list = stats?.isDirectory() === true ? await distributedFile(path) : undefined;
  const other = stats?.isFile() === true ? path : list;
  if (other !== undefined) {
    return { sources: await foreignSources(name, path, other, signal), skipped: [] };
  }
  if (stats?.isDirectory() !== true) throw models.error;
  const found = await modelsBelow(name, path, choice, signal);
  if (found.sources.length === 0) throw models.error;
  return found;
}
