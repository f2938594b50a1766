/** Where the metadata of a checkpoint stands: in its only file, or in its index. */

import type { IndexValue } from './index-writer.js';
import type { SplitSummary } from './split.js';

/** Metadata to write. */
export interface CheckpointMetadata {
  /** Of every file. */
  readonly file: ReadonlyMap<string, string>;
  /** Of the index; null for a checkpoint of one file, which has none. */
  readonly index: ReadonlyMap<string, IndexValue> | null;
  /** Dropped names that could not be recorded, since their key has another meaning. */
  readonly unrecorded: readonly string[];
}

/** Loaders of PyTorch models refuse files that do not name a format they know. */
const FORMAT: readonly [string, string] = ['format', 'pt'];

/**
 * Metadata as `huggingface_hub` writes it. A single file has `format: pt`, which the caller's
 * metadata may overwrite, that metadata, and each dropped name with the name that stands for it.
 * Shards have `format: pt` only; the rest is in the index, behind `total_size`. A dropped name never
 * overwrites any of it.
 */
export function checkpointMetadata(
  split: SplitSummary,
  metadata: ReadonlyMap<string, string>,
  dropped: ReadonlyMap<string, string>,
): CheckpointMetadata {
  const { isSharded, metadata: total } = split;
  const taken = isSharded ? 'total_size' : 'format';
  const given = new Map(metadata);
  const unrecorded: string[] = [];
  for (const [name, kept] of dropped) {
    if (name === taken || metadata.has(name)) unrecorded.push(name);
    else given.set(name, kept);
  }
  if (!isSharded) return { file: new Map([FORMAT, ...given]), index: null, unrecorded };
  const index = new Map<string, IndexValue>([['total_size', total.total_size], ...given]);
  return { file: new Map([FORMAT]), index, unrecorded };
}
