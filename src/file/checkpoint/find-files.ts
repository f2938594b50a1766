/** Finds the files of a checkpoint: chooses in a folder, and looks for the shards of an index. */

import { basename, dirname, join } from 'node:path';
import { FormatError, quoteName, type SafetensorsError } from '../../errors/errors.js';
import {
  closeFile,
  exists,
  listFolder,
  NOTHING_THERE,
  realPath,
} from '../../platform/io/file-calls.js';
import { openRegularFile } from '../../platform/io/opened-file.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { isInterimName, isReplacementRecord } from '../../platform/io/temporary-names.js';
import { forEach } from '../../work/items.js';
import { runSync, type Work } from '../../work/work.js';
import { blobsOf, isBelow, leadsToBlob, repositoryAround } from '../cache/cache-layout.js';
import { readFileHeader } from '../read-header.js';
import { readIndex } from '../read-index.js';
import { requireModelFile } from '../require-model.js';
import type { CheckpointIndex, ParseIndexOptions } from '../shards/checkpoint-index.js';
import {
  indexesAmong,
  isConvertibleName,
  isSafetensorsName,
  isTorchIndexName,
  requireVariant,
  SHARD_NUMBER,
} from '../shards/file-choice.js';
import { impliedIndex, type ShardNames } from '../shards/implied-index.js';
import {
  type ChosenModel,
  chooseIndex,
  chooseModel,
  isChosen,
  type ModelDecision,
  type NoModel,
  type PartialModel,
} from '../shards/model-choice.js';
import { hasWeightsName } from '../shards/shard-paths.js';
import type { CheckpointProblem } from '../shards/verification-report.js';
import type { SiblingFile } from '../source/tensor-info.js';

/** The index or the only file of a checkpoint, whose folder has its siblings. */
export interface SiblingPlace {
  readonly path: string;
  /** Reads a sibling where no folder has the files: within an archive, or of bytes and descriptors, which have none. */
  readonly readSibling?: ((name: string) => Work<SiblingFile | undefined>) | undefined;
}

/** One file of a checkpoint. */
export interface ShardFile {
  /** Name as in the index, without `.` parts; the file's name when there is no index. */
  readonly name: string;
  /** The name differs from that in the index where only case or Unicode normalization do. */
  readonly path: string;
}

/**
 * The files of a checkpoint; `path` is that of the index, or of the only file. Shards without an index have the path
 * that their index would have.
 */
export interface CheckpointFiles extends SiblingPlace {
  /** Of shards without an index null, until `withIndex` has read their headers. */
  readonly index: CheckpointIndex | null;
  /** Whether there are shards without an index. */
  readonly isIndexMissing?: boolean | undefined;
  readonly shards: readonly ShardFile[];
  /** Names of an index or a single file in the same folder that could have been opened instead. */
  readonly ignoredFiles: readonly string[];
  /** Whether the only file has no path: it cannot be opened again. */
  readonly isUnplaced?: boolean | undefined;
  /** Problems by names, for the verification. */
  readonly problems?: readonly CheckpointProblem[] | undefined;
}

/** Options of the choice. */
export interface SelectOptions extends Omit<ParseIndexOptions, 'path'> {
  /** Such as `fp16` in `model.fp16.safetensors`; other files are ignored. */
  readonly variant?: string | undefined;
}

/** The checkpoint of one file, whatever its name. */
export function singleFile(path: string, ignoredFiles: readonly string[] = []): CheckpointFiles {
  return { path, index: null, shards: [{ name: basename(path), path }], ignoredFiles };
}

/** A file without a path: a descriptor, or bytes, whose label is empty. It has no folder with other files. */
export function unplacedFile(label: string): CheckpointFiles {
  return { ...singleFile(label), isUnplaced: true, readSibling: noFile };
}

/** How errors and handles name the files; undefined for bytes. */
export function labelOf({ path }: CheckpointFiles): string | undefined {
  return path === '' ? undefined : path;
}

// biome-ignore lint/correctness/useYield: it reads nothing
function* noFile(): Work<undefined> {
  return undefined;
}

/** Returns the names of the shards of an index; undefined when it cannot be read. */
export function shardNamesOf(path: string): readonly string[] | undefined {
  try {
    return runSync(readIndex(path, {})).shards;
  } catch {
    return undefined;
  }
}

/** The files of a model. Without some of its shards, `files` are all that the index lists. */
export type FoundFiles =
  | { readonly kind: 'model'; readonly files: CheckpointFiles }
  | {
      readonly kind: 'missing-shards';
      readonly files: CheckpointFiles;
      readonly error: SafetensorsError;
    };

/** Finds the checkpoint of an index. */
export function* indexedFiles(path: string, options: ParseIndexOptions): Work<FoundFiles> {
  const folder = dirname(path);
  const index = yield* readIndex(path, options);
  const missing = yield* missingShards(path, index);
  const names = yield* listedNames(folder);
  const chosen = chooseIndex(basename(path), { shards: index.shards, missing }, names);
  return foundFiles(folder, names, chosen, index, path);
}

/** `shown` is the path in the error. */
function foundFiles(
  folder: string,
  names: readonly string[],
  found: ChosenModel | PartialModel,
  index: CheckpointIndex | null,
  shown: string = join(folder, found.name),
): FoundFiles {
  if (isChosen(found)) return { kind: 'model', files: filesOf(folder, names, found, index) };
  const { kind, name, shards } = found;
  const files = {
    path: join(folder, name),
    index,
    shards: placed(folder, shards),
    ignoredFiles: [],
  };
  return { kind, files, error: found.errorAt(() => shown) };
}

function placed(folder: string, shards: ReadonlyMap<string, string>): ShardFile[] {
  return Array.from(shards, ([listed, file]) => ({ name: listed, path: join(folder, file) }));
}

/** The names in a folder; empty without permission to list it, which opening an index does not need. */
function* listedNames(folder: string): Work<string[]> {
  try {
    return yield* lastingNames(folder);
  } catch (error) {
    if (!hasCode(error, ['EACCES', 'EPERM'])) throw error;
    return [];
  }
}

/** The shards of an index without a file of this name. Throws for a link out of the folder. */
function* missingShards(path: string, { shards }: CheckpointIndex): Work<string[]> {
  const folder = dirname(path);
  const isInside = yield* insideOf(folder);
  const isMissing = new Set<string>();
  yield* forEach(shards, function* (name) {
    try {
      if (!(yield* isInside(join(folder, name)))) rejectLink(path, name);
    } catch (error) {
      if (!hasCode(error, NOTHING_THERE)) throw error;
      isMissing.add(name);
    }
  });
  return shards.filter((name) => isMissing.has(name));
}

function filesOf(
  folder: string,
  names: readonly string[],
  { kind, name, shards, ignoredFiles, problems }: ChosenModel,
  index: CheckpointIndex | null,
): CheckpointFiles {
  return {
    path: join(folder, name),
    index,
    isIndexMissing: kind === 'shards',
    shards: placed(folder, shards),
    ignoredFiles,
    // A save that was killed, or is under way, leaves shards; the next one deletes them.
    problems: kind === 'index' && names.some(isReplacementRecord) ? [] : problems,
  };
}

/** How to read the headers of shards without an index. */
interface ShardHeaderOptions {
  readonly maxHeaderByteLength?: number | undefined;
  /** Whether to accept files that are not a model, to inspect them. */
  readonly acceptsIncomplete?: boolean | undefined;
}

/**
 * Returns the same files with the index that they lack, which takes the header of every shard.
 *
 * @throws FormatError for a bad shard, and `SAFETENSORS_INDEX_MISMATCH` for a tensor in two shards
 */
export function* withIndex(
  files: CheckpointFiles,
  { maxHeaderByteLength, acceptsIncomplete }: ShardHeaderOptions,
): Work<CheckpointFiles> {
  if (files.isIndexMissing !== true) return files;
  const headers = new Map<number, ShardNames>();
  yield* forEach(files.shards, function* ({ name, path }, shard) {
    const file = yield* openRegularFile(path, path);
    try {
      const { header } = yield* readFileHeader(file, { maxHeaderByteLength, path });
      if (acceptsIncomplete !== true) yield* requireModelFile({ header, file, path });
      headers.set(shard, { name, header });
    } finally {
      yield* closeFile(file.fd);
    }
  });
  const all = Array.from(files.shards.keys(), (shard) => headers.get(shard) as ShardNames);
  const index = yield* impliedIndex(all, files.path);
  // The index lists no shard without tensors.
  const shards = files.shards.filter(({ name }) => index.shards.includes(name));
  return { ...files, index, shards };
}

/** A folder whose index or file is a link out of it. */
export interface OutsideLink {
  readonly kind: 'outside';
  readonly error: FormatError;
}

/** Throws for a link that leads out of the folder of a checkpoint. */
export function rejectLink(path: string, name: string): never {
  throw outsideLink(path, name).error;
}

function outsideLink(path: string, name: string): OutsideLink {
  const message = `expected the files of a checkpoint to stay in its folder, found a link out of it: ${quoteName(name)}`;
  const error = new FormatError('SAFETENSORS_UNSAFE_SHARD_NAME', message, { path });
  return { kind: 'outside', error };
}

/**
 * A test whether a file is inside a folder when links are followed. In a snapshot of the Hub cache,
 * files are links to the blobs of the same repository; these count as inside.
 */
export function* insideOf(folder: string): Work<(path: string) => Work<boolean>> {
  const root = yield* realPath(folder);
  const repository = repositoryAround(root);
  const blobs = repository === undefined ? undefined : yield* blobsOf(repository);
  return function* (path) {
    const real = yield* realPath(path);
    if (isBelow(real, root)) return true;
    return blobs !== undefined && (yield* leadsToBlob(path, real, blobs));
  };
}

/**
 * Lists the names in a folder, without the temporary names of a save, and without folders that are named like weights
 * or an index. A link counts as a file.
 */
export function* lastingNames(folder: string): Work<string[]> {
  const entries = yield* listFolder(folder);
  const isModelName = (name: string): boolean =>
    hasWeightsName(name) || isConvertibleName(name) || isTorchIndexName(name);
  return entries.flatMap(({ name, isFolder }) =>
    isInterimName(name) || (isFolder && isModelName(name)) ? [] : name,
  );
}

/** Lists the names in a folder, without temporary names of a save and without weights of dangling links. */
export function* usableNames(folder: string): Work<string[]> {
  const names = yield* lastingNames(folder);
  const isIndexed = indexesAmong(names).length > 0;
  const usable: string[] = [];
  for (const name of names) {
    // The shards of an index are looked for by their names.
    const isChecked = isSafetensorsName(name) && !(isIndexed && SHARD_NUMBER.test(name));
    if (!isChecked || (yield* exists(join(folder, name)))) usable.push(name);
  }
  return usable;
}

/**
 * Finds the checkpoint in a folder, by the rules of `chooseModel`.
 *
 * @throws FormatError for a bad index, and `SAFETENSORS_UNSAFE_SHARD_NAME` for shards of an index that are outside
 */
export function* selectInFolder(
  folder: string,
  names: readonly string[],
  options: SelectOptions,
): Work<FoundFiles | NoModel | OutsideLink> {
  const { variant } = options;
  requireVariant(variant);
  const isInside = yield* insideOf(folder);
  const indexes = new Map<string, CheckpointIndex>();
  const decision: ModelDecision = chooseModel({ files: names }, { variant });
  let next = decision.next();
  while (next.done !== true) {
    const name = next.value;
    const path = join(folder, name);
    if (!(yield* isInside(path))) return outsideLink(folder, name);
    const index = yield* readIndex(path, options);
    indexes.set(name, index);
    next = decision.next({ shards: index.shards, missing: yield* missingShards(path, index) });
  }
  const found = next.value;
  if ('isEmpty' in found) return found;
  if (isChosen(found)) {
    for (const [listed, file] of found.shards) {
      if (found.kind === 'index' && listed === file) continue;
      if (!(yield* isInside(join(folder, file)))) return outsideLink(folder, file);
    }
  }
  return foundFiles(folder, names, found, indexes.get(found.name) ?? null);
}
