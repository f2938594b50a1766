/** Finds the files of a checkpoint: chooses in a folder, and looks for the shards of an index. */

import { basename, dirname, join } from 'node:path';
import { FormatError, quoteName, quoteNames, SafetensorsError } from '../../errors/errors.js';
import { exists, listFolder, NOTHING_THERE, realPath } from '../../platform/io/file-calls.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { isInterimName } from '../../platform/io/temporary-names.js';
import { forEach } from '../../work/items.js';
import { runSync, type Work } from '../../work/work.js';
import { blobsOf, isBelow, leadsToBlob, repositoryAround } from '../cache/cache-layout.js';
import type { BesidePlace } from '../json-beside.js';
import { readIndex } from '../read-index.js';
import type { CheckpointIndex, ParseIndexOptions } from '../shards/checkpoint-index.js';
import {
  chooseFiles,
  foreignFolder,
  indexesAmong,
  isConvertibleName,
  isOfVariant,
  isTorchIndexName,
  onlyWholeFile,
  requireVariant,
  wholeFiles,
} from '../shards/file-choice.js';
import { partNames, partsError } from '../shards/incomplete-models.js';

/** One file of a checkpoint. */
export interface ShardFile {
  /** Name as in the index, without `.` parts; the file's name when there is no index. */
  readonly name: string;
  readonly path: string;
}

/** The files of a checkpoint; `path` is that of the index, or of the only file. */
export interface CheckpointFiles extends BesidePlace {
  readonly index: CheckpointIndex | null;
  readonly shards: readonly ShardFile[];
  /** Names of an index or a single file in the same folder that could have been opened instead. */
  readonly passedOver: readonly string[];
}

/** Options of the choice. */
export interface SelectOptions extends Omit<ParseIndexOptions, 'path'> {
  /** Such as `fp16` in `model.fp16.safetensors`; other files are ignored. */
  readonly variant?: string | undefined;
}

/** The checkpoint of one file, whatever its name. */
export function singleFile(path: string, passedOver: readonly string[] = []): CheckpointFiles {
  return { path, index: null, shards: [{ name: basename(path), path }], passedOver };
}

/** Returns the names of the shards of an index; undefined when it cannot be read. */
export function shardNamesOf(path: string): readonly string[] | undefined {
  try {
    return runSync(readIndex(path, {})).shards;
  } catch {
    return undefined;
  }
}

/** An index, and the names of the shards that are missing. */
interface FoundIndex {
  readonly files: CheckpointFiles;
  readonly missing: readonly string[];
}

function* findShards(path: string, options: ParseIndexOptions): Work<FoundIndex> {
  const index = yield* readIndex(path, options);
  const folder = dirname(path);
  const isInside = yield* insideOf(folder);
  const shards = index.shards.map((name) => ({ name, path: join(folder, name) }));
  const isMissing = new Set<string>();
  yield* forEach(shards, function* (shard) {
    try {
      if (!(yield* isInside(shard.path))) refuseLink(path, shard.name);
    } catch (error) {
      if (!hasCode(error, NOTHING_THERE)) throw error;
      isMissing.add(shard.name);
    }
  });
  const missing = index.shards.filter((name) => isMissing.has(name));
  return { files: { path, index, shards, passedOver: [] }, missing };
}

/** Finds the checkpoint of an index; every shard must exist. */
export function* indexedFiles(path: string, options: ParseIndexOptions): Work<CheckpointFiles> {
  return complete(yield* findShards(path, options));
}

/** Finds the checkpoint of an index, with or without its shards. */
export function* namedFiles(path: string, options: ParseIndexOptions): Work<CheckpointFiles> {
  return (yield* findShards(path, options)).files;
}

function complete({ files, missing }: FoundIndex): CheckpointFiles {
  if (missing.length === 0) return files;
  const message = `expected ${files.shards.length} shards, found ${missing.length} of them missing: ${quoteNames(missing)}`;
  throw new SafetensorsError('SAFETENSORS_MISSING_SHARDS', message, { path: files.path });
}

/** Throws for a link that leads out of the folder of a checkpoint. */
export function refuseLink(path: string, name: string): never {
  const message = `expected the files of a checkpoint to stay in its folder, found a link out of it: ${quoteName(name)}`;
  throw new FormatError('SAFETENSORS_UNSAFE_SHARD_NAME', message, { path });
}

/**
 * A test whether a file is inside a folder when links are followed. In a snapshot of the Hub's cache,
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
 * Lists the names in a folder, without the temporary names of a save, and without folders that are named like a file of
 * torch or NumPy.
 */
export function* lastingNames(folder: string): Work<string[]> {
  const entries = yield* listFolder(folder);
  const isModelName = (name: string): boolean => isConvertibleName(name) || isTorchIndexName(name);
  return entries.flatMap(({ name, isFolder }) =>
    isInterimName(name) || (isFolder && isModelName(name)) ? [] : name,
  );
}

/**
 * Chooses in a folder: the model's index if all its shards are there, else its single file, else the
 * only index of another name, else the only safetensors file.
 *
 * @throws SafetensorsError `SAFETENSORS_MISSING_SHARDS`, `SAFETENSORS_CHECKPOINT_NOT_FOUND`
 * @throws FormatError for a bad index, `SAFETENSORS_DISTRIBUTED_PART`, `SAFETENSORS_DELTA`, and
 *   `SAFETENSORS_UNSAFE_SHARD_NAME` for a link out of the folder
 */
export function* selectInFolder(folder: string, options: SelectOptions): Work<CheckpointFiles> {
  const { variant } = options;
  requireVariant(variant);
  const isInside = yield* insideOf(folder);
  const present = (yield* lastingNames(folder)).filter((name) => isOfVariant(name, variant));
  let { indexes, single } = chooseFiles(present, variant);
  if (single !== undefined && !(yield* exists(join(folder, single)))) {
    const others = present.filter((name) => name !== single);
    ({ indexes, single } = chooseFiles(others, variant));
  }
  let incomplete: FoundIndex | undefined;
  for (const name of indexes) {
    const path = join(folder, name);
    if (!(yield* isInside(path))) refuseLink(folder, name);
    const found = yield* findShards(path, options);
    const named = found.files.shards.some((shard) => shard.name === single);
    const passedOver = single !== undefined && !named ? [single] : [];
    if (found.missing.length === 0) return { ...found.files, passedOver };
    incomplete ??= found;
  }
  single ??= onlyFile(folder, present, incomplete, variant);
  if (!(yield* isInside(join(folder, single)))) refuseLink(folder, single);
  const passedOver = incomplete === undefined ? [] : [basename(incomplete.files.path)];
  return singleFile(join(folder, single), passedOver);
}

/**
 * Returns the only safetensors file of a folder. Throws for half a model: a shard of an incomplete index, or a
 * numbered file without an index, as during a save.
 */
function onlyFile(
  folder: string,
  present: readonly string[],
  incomplete: FoundIndex | undefined,
  variant: string | undefined,
): string {
  const ofVariant = variant === undefined ? '' : ` of the variant ${variant}`;
  const names = wholeFiles(present);
  if (incomplete !== undefined) {
    const isShard = incomplete.files.shards.some((shard) => shard.name === names[0]);
    if (names.length !== 1 || isShard) complete(incomplete);
  }
  const only = onlyWholeFile(present);
  if (only !== undefined) return only;
  const found = [...indexesAmong(present), ...names].sort();
  const ofParts = partsError(present, folder);
  if (ofParts !== undefined) throw ofParts;
  const indexes = present.filter(isTorchIndexName);
  const foreign = found.length > 0 ? null : foreignFolder(present);
  // Parts are rejected by their paths, too.
  const parts = partNames(present);
  const files = present.filter((name) => isConvertibleName(name) && !parts.includes(name));
  const others = (indexes.length > 0 ? indexes : files).sort();
  const hint =
    others.length === 0
      ? ''
      : `, but files that safetensors-mmap/convert opens by their paths: ${quoteNames(others)}`;
  const message =
    foreign !== null
      ? `expected a safetensors checkpoint in the folder, found ${foreign.description}`
      : found.length === 0
        ? `expected a checkpoint in the folder, found no safetensors file or index${ofVariant}${hint}`
        : found.length === 1
          ? `expected a whole checkpoint in the folder, found a shard without its index: ${quoteNames(found)}`
          : `expected one checkpoint in the folder, found several to choose from: ${quoteNames(found)}; open one of them`;
  const context = { path: folder, foundFormat: foreign?.format };
  throw new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, context);
}
