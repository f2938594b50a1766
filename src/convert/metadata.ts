/** Metadata of a converted checkpoint. */

import type { LaidOutMetadata } from '../checkpoint/write/layout.js';
import { checkpointMetadata, reshardMetadata } from '../shards/metadata.js';
import type { SplitSummary } from '../shards/split.js';
import type { SourceMetadata } from './source.js';

/** Where a key comes from. */
export interface MetadataSources {
  /** Of the source, as far as its tensors were selected; null for formats that have none. */
  readonly source: SourceMetadata | null;
  /** Of the caller; wins over the source's. */
  readonly given: ReadonlyMap<string, string>;
  /** Names that were dropped, and the tensors that are written in their place. */
  readonly dropped: ReadonlyMap<string, string>;
}

/** Metadata to write. */
export interface ConvertedMetadata extends LaidOutMetadata {
  /** Dropped names that could not be recorded because their key has another meaning. */
  readonly unrecorded: readonly string[];
}

/** Formats without metadata get that of `saveCheckpoint`, others keep what they have, as with `reshard`. */
export function convertedMetadata(
  { source, given, dropped }: MetadataSources,
  split: SplitSummary,
): ConvertedMetadata {
  if (source === null) return checkpointMetadata(split, given, dropped);
  const { file, index } = reshardMetadata(source.files, source.index, split);
  if (given.size === 0) return { file, index, unrecorded: [] };
  return split.isSharded
    ? { file, index: new Map([...(index ?? []), ...given]), unrecorded: [] }
    : { file: new Map([...(file ?? []), ...given]), index, unrecorded: [] };
}
