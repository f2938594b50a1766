/** Plans downloads of the files of a repository that patterns choose. */

import { argumentRangeError } from '../../errors/arguments.js';
import { FormatError, quoteName, quoteNames, RemoteError } from '../../errors/errors.js';
import { type FilePatterns, filesTest } from '../../file/hub/file-patterns.js';
import {
  DEFAULT_MAX_INDEX_BYTE_LENGTH,
  parseCheckpointIndex,
} from '../../file/shards/checkpoint-index.js';
import { ofEach } from '../../work/scope.js';
import { emptyReport } from '../../write/selection/selection-report.js';
import type { DownloadItems, ModelItems } from './download-item.js';
import { hasPattern } from './folder-target.js';
import { indexBytesOf, type ModelFiles, type PlaceOf } from './model-files.js';
import { indexOf, requireReceivable, tensorsAmong } from './plan-whole.js';
import {
  isIndexName,
  QUESTIONS_AT_ONCE,
  type SourceFile,
  type SourceFiles,
} from './source-files.js';

/** Most bytes of indexes to keep: those of a repository with many checkpoints have some megabytes. */
const MAX_INDEXES_BYTE_LENGTH = DEFAULT_MAX_INDEX_BYTE_LENGTH;

/** Most indexes to read; each takes a lock on its folder. */
const MAX_INDEXES = 100;

/** What runs a program of git's, where it finds it: git allows no such file in a repository. */
const GIT_FOLDER = /(?:^|\/)\.git(?:\/|$)/i;

/**
 * Plans the download of all files below the source's folder that the patterns choose. An index whose shards are all
 * chosen makes a model of them, which takes the place of an earlier one in one step.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for a source that has no list of files; RemoteError
 *   `SAFETENSORS_REMOTE_NOT_FOUND` if no file is chosen; FormatError `SAFETENSORS_UNSAFE_SHARD_NAME`; as `planWhole`
 */
export async function planFiles(
  source: SourceFiles,
  patterns: FilePatterns,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<DownloadItems> {
  return await planNamed(source, await chosenNames(source, patterns, signal), placeOf, signal);
}

/**
 * Plans the download of files by their paths below the source's folder.
 *
 * @throws As {@link planFiles}
 */
export async function planNamed(
  source: SourceFiles,
  names: readonly string[],
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<DownloadItems> {
  const find = (name: string, ends: AbortSignal): Promise<SourceFile> => source.find(name, ends);
  const files = await ofEach(names, QUESTIONS_AT_ONCE, find, signal);
  for (const file of files) requireReceivable(file, placeOf(file));
  const models = await modelsAmong(files, placeOf, signal);
  const ofModels = new Set<string>();
  for (const { weights, index } of models) {
    for (const { name } of [...weights, ...(index === null ? [] : [index])]) ofModels.add(name);
  }
  return {
    commit: source.hub?.commit ?? null,
    models,
    others: files.filter(({ name }) => !ofModels.has(name)),
    isAddition: true,
    conflicts: [],
    totalSize: null,
    configMismatches: [],
    skipped: [],
    report: emptyReport(),
    tensorsIn: tensorsAmong(files, placeOf),
  };
}

/** Paths of the chosen files below the source's folder. */
async function chosenNames(
  source: SourceFiles,
  patterns: FilePatterns,
  signal: AbortSignal,
): Promise<string[]> {
  const { path, hub } = source;
  if (source.unlisted !== undefined && source.name === null) {
    return requireNoGit(namesWithoutList(patterns, source.unlisted), path);
  }
  const entries = await source.listAll(signal);
  if (entries === null || hub === null) {
    const name = patterns.files === undefined ? 'ignore' : 'files';
    const expected =
      'left out for a file: it chooses in a repository on the Hub, or a folder of one';
    throw argumentRangeError(name, expected, patterns[name]);
  }
  const all = entries.map((entry) => entry.path.slice(hub.prefix.length));
  const names = all.filter(filesTest(patterns)).sort();
  if (names.length === 0) {
    const shown = quoteNames(all) || 'no files';
    const message = `expected files that match the patterns, found none among ${all.length}: ${shown}`;
    throw new RemoteError('SAFETENSORS_REMOTE_NOT_FOUND', message, { path });
  }
  return requireNoGit(names, path);
}

/** Throws for files in git's own folder. Returns the names. */
export function requireNoGit(names: string[], path: string): string[] {
  const unsafe = names.find((name) => GIT_FOLDER.test(name));
  if (unsafe === undefined) return names;
  const message = `expected files outside of git's own folder, found ${quoteName(unsafe)}`;
  throw new FormatError('SAFETENSORS_UNSAFE_SHARD_NAME', message, { path });
}

/** The names that patterns without wildcards are; throws the error of the server without lists for others. */
function namesWithoutList({ files = [], ignore }: FilePatterns, unlisted: Error): string[] {
  const names = [...new Set([files].flat())].sort();
  const isNamed = (name: string): boolean => name !== '' && !/[*?[\]]|[\\/]$/.test(name);
  if (names.length === 0 || ignore !== undefined || !names.every(isNamed)) throw unlisted;
  return names;
}

/** The models whose index and shards are all among the files. A file belongs to one of them. */
async function modelsAmong(
  files: readonly SourceFile[],
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<ModelItems[]> {
  const free = new Map(files.map((file) => [file.name, file]));
  const indexes = files.filter(({ name }) => isIndexName(name.slice(name.lastIndexOf('/') + 1)));
  const models: ModelItems[] = [];
  let byteLength = 0;
  for (const file of indexes.slice(0, MAX_INDEXES)) {
    byteLength += file.byteLength;
    if (byteLength > MAX_INDEXES_BYTE_LENGTH) break;
    const found = await readIndex(file, placeOf, signal);
    if (found === null) continue;
    const prefix = file.name.slice(0, file.name.lastIndexOf('/') + 1);
    const weights = found.index.parsed.shards.map((name) => free.get(prefix + name));
    if (!weights.every((shard) => shard !== undefined)) continue;
    const model = { prefix, weights, index: indexOf(found), obsolete: [] };
    if (!hasPattern(model)) continue;
    for (const { name } of weights) free.delete(name);
    models.push(model);
  }
  return models;
}

/** An index. */
interface IndexFile extends Pick<ModelFiles, 'file'> {
  readonly index: NonNullable<ModelFiles['index']>;
}

/** Reads an index; null for one that is malformed, which is a file like any other. */
async function readIndex(
  file: SourceFile,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<IndexFile | null> {
  const bytes = await indexBytesOf(file, placeOf(file), signal);
  try {
    return {
      file,
      index: { bytes, parsed: parseCheckpointIndex(bytes, { path: file.file.path }) },
    };
  } catch (error) {
    if (error instanceof FormatError) return null;
    throw error;
  }
}
