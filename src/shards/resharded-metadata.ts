/** What becomes of a checkpoint's metadata when its tensors get into other files. */

import type { CheckpointIndex } from './index.js';
import type { IndexValue } from './index-writer.js';
import type { SplitSummary } from './split.js';

/** Metadata of a file; null for none. */
type FileMetadata = ReadonlyMap<string, string> | null;

/** Metadata of an index, as it reads it. */
export type IndexMetadata = Pick<CheckpointIndex, 'metadata' | 'jsonKeys'>;

/** Metadata of the new files. */
export interface ReshardedMetadata {
  /** Of every file. */
  readonly file: FileMetadata;
  /** Of the index; null when there is only one file. */
  readonly index: ReadonlyMap<string, IndexValue> | null;
  /** Keys with different values, of which not all were kept. */
  readonly conflicts: readonly string[];
}

/** What loaders look for in every file. */
const FORMAT = 'format';

/** Belongs to an index, and is counted anew. */
const TOTAL_SIZE = 'total_size';

/**
 * Distributes the metadata of a checkpoint's files, one of them or the shards of `index`, over the
 * files of `split`.
 */
export function reshardMetadata(
  files: readonly FileMetadata[],
  index: IndexMetadata | null,
  { isSharded, metadata: total }: SplitSummary,
): ReshardedMetadata {
  const { common, conflicts } = intersect(files);
  const hasMetadata = files.some((file) => file !== null);
  const ofIndex = valuesOf(index);
  ofIndex.delete(TOTAL_SIZE);
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

/** What no two files contradict each other about, and the keys of the rest. */
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
