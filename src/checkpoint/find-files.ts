/** Finds the files of a checkpoint: chooses in a folder, and looks for the shards of an index. */

import { closeSync, existsSync, readdirSync, realpathSync, statSync } from 'node:fs';
import { basename, dirname, join, sep } from 'node:path';
import { argumentRangeError } from '../errors/arguments.js';
import { FormatError, quoteName, SafetensorsError } from '../errors/errors.js';
import { blobsOf } from '../hub/cache.js';
import { openRegularFile, readerOf, readFully } from '../io/opened-file.js';
import { isInterimName } from '../replacement/temporary-names.js';
import {
  type CheckpointIndex,
  checkIndexByteLength,
  type ParseIndexOptions,
  parseCheckpointIndex,
} from '../shards/checkpoint-index.js';
import { pathObjection, SHARD_EXTENSION } from '../shards/shard-paths.js';

/** One file of a checkpoint. */
export interface ShardFile {
  /** Name as in the index, without `.` parts; the file's name when there is no index. */
  readonly name: string;
  readonly path: string;
}

/** A checkpoint that was found. */
export interface CheckpointFiles {
  /** The index, or the only file. */
  readonly path: string;
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

/** How many names a message lists. */
const SHOWN_NAMES = 20;
const INDEX_NAME = /\.safetensors(?:\.index\.json|\.index\.[^/]*\.json)$/;
/** The name of one of several shards. */
const NUMBERED_SHARD = /-\d{5,}-of-(?!0*1\.)\d{5,}\.safetensors$/;
/** What the name of a shard has more than that of the single file of the same pattern. */
const SHARD_NUMBER = /-\d{5,}-of-\d{5,}/;

/** Some of the names for a message, and how many more there are. */
function listNames(names: readonly string[]): string {
  const shown = names.slice(0, SHOWN_NAMES).map(quoteName).join(', ');
  const more = names.length - SHOWN_NAMES;
  return more > 0 ? `${shown} and ${more} more` : shown;
}

/** The checkpoint of one file, whatever its name. */
export function singleFile(path: string, passedOver: readonly string[] = []): CheckpointFiles {
  return { path, index: null, shards: [{ name: basename(path), path }], passedOver };
}

/** Reads an index whose length was checked before. */
function readIndex(path: string, options: ParseIndexOptions): CheckpointIndex {
  const file = openRegularFile(path, path);
  try {
    checkIndexByteLength(file.byteLength, { ...options, path });
    const json = new Uint8Array(file.byteLength);
    readFully(readerOf(file), json, 0, path);
    return parseCheckpointIndex(json, { ...options, path });
  } finally {
    closeSync(file.fd);
  }
}

/** Names of the shards of an index; undefined when it cannot be read. */
export function shardNamesOf(path: string): readonly string[] | undefined {
  try {
    return readIndex(path, {}).shards;
  } catch {
    return undefined;
  }
}

/** An index, and the names of the shards that are missing. */
interface FoundIndex {
  readonly files: CheckpointFiles;
  readonly missing: readonly string[];
}

function findShards(path: string, options: ParseIndexOptions): FoundIndex {
  const index = readIndex(path, options);
  const folder = dirname(path);
  const isInside = insideOf(folder);
  const missing: string[] = [];
  const shards = index.shards.map((name) => {
    const shard = join(folder, name);
    if (statSync(shard, { throwIfNoEntry: false }) === undefined) missing.push(name);
    else if (!isInside(shard)) refuseLink(path, name);
    return { name, path: shard };
  });
  return { files: { path, index, shards, passedOver: [] }, missing };
}

/** The checkpoint of an index; every shard must be there. */
export function indexedFiles(path: string, options: ParseIndexOptions): CheckpointFiles {
  return complete(findShards(path, options));
}

function complete({ files, missing }: FoundIndex): CheckpointFiles {
  if (missing.length === 0) return files;
  const message = `expected ${files.shards.length} shards, found ${missing.length} of them missing: ${listNames(missing)}`;
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
export function insideOf(folder: string): (path: string) => boolean {
  const root = realpathSync.native(folder);
  const blobs = blobsOf(root);
  const roots = blobs === undefined ? [root] : [root, blobs];
  return (path) => {
    const real = realpathSync.native(path);
    return roots.some((root) => real.startsWith(root.endsWith(sep) ? root : root + sep));
  };
}

/** Names of a model's files; with several the preferred first. */
function usualNames(variant: string | undefined): { indexes: string[]; single: string } {
  if (variant === undefined) {
    return { indexes: ['model.safetensors.index.json'], single: 'model.safetensors' };
  }
  return {
    indexes: [`model.safetensors.index.${variant}.json`, `model.${variant}.safetensors.index.json`],
    single: `model.${variant}.safetensors`,
  };
}

/** Whether a file of any name belongs to a variant. Without a variant all files do. */
function isOfVariant(name: string, variant: string | undefined): boolean {
  if (variant === undefined) return true;
  return (
    name.endsWith(`.${variant}${SHARD_EXTENSION}`) ||
    name.endsWith(`.${variant}.safetensors.index.json`) ||
    name.endsWith(`.safetensors.index.${variant}.json`)
  );
}

/**
 * Chooses in a folder: the model's index if all its shards are there, else its single file, else the
 * only index of another name, else the only safetensors file.
 *
 * @throws SafetensorsError `SAFETENSORS_MISSING_SHARDS`, `SAFETENSORS_CHECKPOINT_NOT_FOUND`
 * @throws FormatError for a bad index, and `SAFETENSORS_UNSAFE_SHARD_NAME` for a link out of the folder
 */
export function selectInFolder(folder: string, options: SelectOptions): CheckpointFiles {
  const { variant } = options;
  if (variant !== undefined && (pathObjection(variant) !== null || variant.includes('/'))) {
    throw argumentRangeError('variant', 'a part of a file name, such as fp16', variant);
  }
  const isInside = insideOf(folder);
  const usual = usualNames(variant);
  const present = readdirSync(folder).filter((name) => isOfVariant(name, variant));
  const others = present.filter((name) => INDEX_NAME.test(name));
  const isUsual = usual.indexes.some((name) => present.includes(name));
  const hasSingle = present.includes(usual.single) && existsSync(join(folder, usual.single));
  const isOnly = !hasSingle && others.length === 1;
  const indexes = isUsual ? usual.indexes : isOnly ? others : [];
  let incomplete: FoundIndex | undefined;
  for (const name of indexes.filter((name) => present.includes(name))) {
    const path = join(folder, name);
    if (!isInside(path)) refuseLink(folder, name);
    const found = findShards(path, options);
    const named = found.files.shards.some((shard) => shard.name === usual.single);
    const passedOver = hasSingle && !named ? [usual.single] : [];
    if (found.missing.length === 0) return { ...found.files, passedOver };
    incomplete ??= found;
  }
  const single = hasSingle ? usual.single : onlyFile(folder, present, incomplete, others);
  if (!isInside(join(folder, single))) refuseLink(folder, single);
  const passedOver = incomplete === undefined ? [] : [basename(incomplete.files.path)];
  return singleFile(join(folder, single), passedOver);
}

/**
 * The safetensors files of a folder, without those that a save from or to a single file leaves there
 * for a moment, or for good when it is killed: shards that no index names, and interim names.
 */
function wholeFiles(present: readonly string[]): string[] {
  const names = present.filter((name) => name.endsWith(SHARD_EXTENSION) && !isInterimName(name));
  const all = new Set(names);
  return names.filter(
    (name) => !SHARD_NUMBER.test(name) || !all.has(name.replace(SHARD_NUMBER, '')),
  );
}

/**
 * The only safetensors file of a folder. Throws for half a model: a shard that an incomplete index
 * names, or a numbered file without an index, such as a save under way has.
 */
function onlyFile(
  folder: string,
  present: readonly string[],
  incomplete: FoundIndex | undefined,
  indexes: readonly string[],
): string {
  const names = wholeFiles(present);
  const [only] = names;
  if (incomplete !== undefined) {
    const isShard = incomplete.files.shards.some((shard) => shard.name === only);
    if (names.length !== 1 || isShard) complete(incomplete);
  }
  if (only !== undefined && names.length === 1 && !NUMBERED_SHARD.test(only)) return only;
  const found = [...indexes, ...names].sort();
  const message =
    found.length === 0
      ? 'expected a checkpoint in the folder, found no safetensors file or index'
      : found.length === 1
        ? `expected a whole checkpoint in the folder, found a shard without its index: ${listNames(found)}`
        : `expected one checkpoint in the folder, found several to choose from: ${listNames(found)}; open one of them`;
  throw new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, { path: folder });
}
