/** Where the metadata of a checkpoint stands: in its only file, or in its index. */

import {
  DIGESTS_KEY,
  LEGACY_HASH,
  MODEL_HASH,
  MODELSPEC_HASH,
} from '../../header/tensor-digests.js';
import type { CheckpointIndex } from './checkpoint-index.js';
import type { IndexValue } from './checkpoint-index-writer.js';
import type { SplitSummary } from './split.js';

/** Hashes of all tensors of a file together. */
const DATA_HASHES: readonly string[] = [MODELSPEC_HASH, MODEL_HASH, LEGACY_HASH];

/** Metadata to write. */
export interface CheckpointMetadata {
  /** Of every file. */
  readonly file: ReadonlyMap<string, string>;
  /** Of the index; null for a checkpoint of one file, which has no index. */
  readonly index: ReadonlyMap<string, IndexValue> | null;
  /** Dropped names that could not be recorded because their key has another meaning. */
  readonly unrecorded: readonly string[];
}

/** Loaders of PyTorch models refuse files whose metadata doesn't name a format they know. */
const FORMAT = 'format';
const PYTORCH: readonly [string, string] = [FORMAT, 'pt'];

/** Bytes of all tensors: in an index only, and computed for each new one. */
const TOTAL_SIZE = 'total_size';

/**
 * Metadata as `huggingface_hub` writes it. A single file has `format: pt`, then the caller's metadata,
 * which may overwrite it, then each dropped name with the name of the kept tensor. Shards have
 * `format: pt` only; the rest is in the index, after `total_size`. A dropped name overwrites nothing.
 */
export function checkpointMetadata(
  split: SplitSummary,
  metadata: ReadonlyMap<string, string>,
  dropped: ReadonlyMap<string, string>,
): CheckpointMetadata {
  const { isSharded, metadata: total } = split;
  const taken = isSharded ? TOTAL_SIZE : FORMAT;
  const given = new Map(metadata);
  given.delete(DIGESTS_KEY);
  const unrecorded: string[] = [];
  for (const [name, kept] of dropped) {
    if (name === taken || metadata.has(name)) unrecorded.push(name);
    else given.set(name, kept);
  }
  if (!isSharded) return { file: new Map([PYTORCH, ...given]), index: null, unrecorded };
  const index = new Map<string, IndexValue>([[TOTAL_SIZE, total.total_size], ...given]);
  return { file: new Map([PYTORCH]), index, unrecorded };
}

/** No metadata in any file: dropped names are not recorded. */
export function noMetadata(
  { isSharded, metadata: total }: SplitSummary,
  dropped: ReadonlyMap<string, string>,
): Omit<CheckpointMetadata, 'file'> & { readonly file: null } {
  const index = isSharded ? new Map([[TOTAL_SIZE, total.total_size]]) : null;
  return { file: null, index, unrecorded: [...dropped.keys()] };
}

/** Metadata of a file; null if the file gets no metadata. */
export type FileMetadata = ReadonlyMap<string, string> | null;

/** Metadata of an index as it was read. */
type IndexMetadata = Pick<CheckpointIndex, 'metadata' | 'jsonKeys'>;

/** Metadata of the new files. */
interface SplitMetadata {
  /** Of every file. */
  readonly file: FileMetadata;
  /** Of the index; null when there is only one file. */
  readonly index: ReadonlyMap<string, IndexValue> | null;
  /** Keys to which files gave different values; at most one of the values was kept. */
  readonly conflicts: readonly string[];
}

/**
 * Distributes metadata over the files of `split`: that of a single file, or that of the shards and of
 * their `index`.
 */
export function splitMetadata(
  files: readonly FileMetadata[],
  index: IndexMetadata | null,
  { isSharded, metadata: total }: SplitSummary,
): SplitMetadata {
  const { common, conflicts } = intersect(files);
  const hasMetadata = files.some((file) => file !== null);
  const ofIndex = valuesOf(index);
  ofIndex.delete(TOTAL_SIZE);
  ofIndex.delete(DIGESTS_KEY);
  if (!isSharded) {
    const merged = new Map(common);
    for (const [key, value] of ofIndex) {
      const text = typeof value === 'string' ? value : (index?.metadata?.get(key) as string);
      if (!merged.has(key)) merged.set(key, text);
      else if (merged.get(key) !== text) conflicts.add(key);
    }
    const file = hasMetadata || merged.size > 0 ? merged : null;
    return { file, index: null, conflicts: [...conflicts] };
  }
  const size: [string, IndexValue] = [TOTAL_SIZE, total.total_size];
  if (index !== null) {
    const file = hasMetadata ? common : null;
    return { file, index: new Map([size, ...ofIndex]), conflicts: [...conflicts] };
  }
  const format = common.get(FORMAT);
  const file = format === undefined ? null : new Map([[FORMAT, format]]);
  const others = [...common].filter(([key]) => key !== FORMAT && key !== TOTAL_SIZE);
  return { file, index: new Map([size, ...others]), conflicts: [...conflicts] };
}

/** Metadata of a checkpoint as its files and its index have it. */
export interface SourceMetadata {
  /** Of every file. */
  readonly files: readonly FileMetadata[];
  /** Of the index; null for a single file. */
  readonly index: IndexMetadata | null;
  /** Keys with different values in several sources that were joined; absent for one source. */
  readonly conflicts?: readonly string[];
}

/** Where a key of a checkpoint that is rewritten comes from. */
interface MetadataSources {
  /** Of the source, as far as its tensors were selected; null for formats without metadata. */
  readonly source: SourceMetadata | null;
  /** Of the caller; wins over the source's. Null for no metadata at all. */
  readonly given: ReadonlyMap<string, string> | null;
  /** Names that were dropped, and the tensors that are written in their place. */
  readonly dropped: ReadonlyMap<string, string>;
  /** Whether all tensors in one file have the bytes of the source's only file, in the same order. */
  readonly isSameData: () => boolean;
}

/** Metadata of the new files, and the keys that could not be kept. */
export type RewrittenMetadata = SplitMetadata & Pick<CheckpointMetadata, 'unrecorded'>;

function withoutDataHashes({ files, index }: SourceMetadata): SourceMetadata {
  const without = (metadata: FileMetadata): FileMetadata =>
    metadata && new Map([...metadata].filter(([key]) => !DATA_HASHES.includes(key)));
  return {
    files: files.map(without),
    index: index && { metadata: without(index.metadata), jsonKeys: index.jsonKeys },
  };
}

/** Formats without metadata get that of `saveCheckpoint`; others keep theirs, without hashes of other bytes. */
export function rewrittenMetadata(
  { source, given, dropped, isSameData }: MetadataSources,
  split: SplitSummary,
): RewrittenMetadata {
  if (given === null) return { ...noMetadata(split, dropped), conflicts: [] };
  if (source === null) return { ...checkpointMetadata(split, given, dropped), conflicts: [] };
  const hasHashes = [...source.files, source.index?.metadata ?? null].some((metadata) =>
    DATA_HASHES.some((key) => metadata?.has(key)),
  );
  const isKept = !hasHashes || (!split.isSharded && isSameData());
  const { files, index: ofIndex } = isKept ? source : withoutDataHashes(source);
  const { file, index, conflicts } = splitMetadata(files, ofIndex, split);
  const all = [...(source.conflicts ?? []), ...conflicts];
  const kept = new Map<string, IndexValue>([...((split.isSharded ? index : file) ?? []), ...given]);
  const unrecorded = [...dropped.keys()].filter((name) => kept.has(name));
  for (const [name, written] of dropped) if (!kept.has(name)) kept.set(name, written);
  const facts = { conflicts: all, unrecorded };
  if (split.isSharded) return { ...facts, file, index: kept };
  const isNone = file === null && kept.size === 0;
  return { ...facts, file: isNone ? null : (kept as Map<string, string>), index };
}

/**
 * Returns the metadata that a single file of a source would have, without hashes of its bytes; that of formats without
 * metadata as if they were converted. `adapt` maps the metadata to the tensors that were taken.
 */
export function fileMetadata(
  source: SourceMetadata | null,
  adapt: (metadata: FileMetadata) => FileMetadata,
): Pick<SplitMetadata, 'file' | 'conflicts'> {
  if (source === null) return { file: new Map([PYTORCH]), conflicts: [] };
  const { files, index } = withoutDataHashes(source);
  const ofIndex = index && { ...index, metadata: adapt(index.metadata) };
  const split = { isSharded: false, metadata: { total_size: 0 } };
  return splitMetadata(files.map(adapt), ofIndex, split);
}

/**
 * Joins the metadata of several sources: of a key in several, the first value counts. `computed` has the keys whose
 * values are known for all sources together, such as aliases; they win over other keys.
 */
export function joinedMetadata(
  sources: readonly FileMetadata[],
  computed: ReadonlyMap<string, string>,
): Required<SourceMetadata> {
  const joined = new Map<string, string>();
  const conflicts = new Set<string>();
  const entries = sources.flatMap((source) => [...(source ?? [])]);
  const own = entries.filter(([key]) => key !== TOTAL_SIZE);
  for (const [key, value] of [...computed, ...own]) {
    if (!joined.has(key)) joined.set(key, value);
    else if (joined.get(key) !== value) conflicts.add(key);
  }
  const isNone = joined.size === 0 && sources.every((source) => source === null);
  return { files: [isNone ? null : joined], index: null, conflicts: [...conflicts] };
}

/** The keys to which no two files give different values, and the keys to which some do. */
function intersect(files: readonly FileMetadata[]): {
  common: Map<string, string>;
  conflicts: Set<string>;
} {
  const common = new Map<string, string>();
  const conflicts = new Set<string>();
  for (const [key, value] of files.flatMap((file) => [...(file ?? [])])) {
    if (!common.has(key)) common.set(key, value);
    else if (common.get(key) !== value) conflicts.add(key);
  }
  for (const key of conflicts) common.delete(key);
  // Sums of other files.
  common.delete(DIGESTS_KEY);
  conflicts.delete(DIGESTS_KEY);
  return { common, conflicts };
}

function valuesOf(index: IndexMetadata | null): Map<string, IndexValue> {
  const values = new Map<string, IndexValue>();
  for (const [key, text] of index?.metadata ?? []) {
    values.set(key, index?.jsonKeys.has(key) === true ? toIndexValue(JSON.parse(text)) : text);
  }
  return values;
}

/** A value of JSON, with Maps for objects. */
function toIndexValue(value: unknown): IndexValue {
  if (Array.isArray(value)) return value.map(toIndexValue);
  if (typeof value !== 'object' || value === null) return value as IndexValue;
  return new Map(Object.entries(value).map(([key, item]) => [key, toIndexValue(item)]));
}
