/**
 * Aliases. A writer that drops a tensor because another one has the same bytes records it in the
 * metadata, as `dropped: kept`. The dropped name then stands for the kept tensor.
 */

/** The questions of a lookup to a checkpoint. */
export interface WrittenTensors {
  /** Metadata of the index, or of the only file. */
  readonly metadata: ReadonlyMap<string, string> | null;
  /** Number of the shard that has a tensor; -1 if no tensor is written under that name. */
  shardOf(name: string): number;
}

/** Where a tensor is. */
export interface TensorPlace {
  /** Number of the shard. */
  readonly shard: number;
  /** Name in the shard: for an alias that of the kept tensor. */
  readonly name: string;
}

/** Finds a tensor by its name or an alias; null for an unknown name. Aliases of aliases don't count. */
export function locateTensor(tensors: WrittenTensors, name: string): TensorPlace | null {
  const shard = tensors.shardOf(name);
  if (shard !== -1) return { shard, name };
  const kept = tensors.metadata?.get(name);
  const keptShard = kept === undefined ? -1 : tensors.shardOf(kept);
  return kept === undefined || keptShard === -1 ? null : { shard: keptShard, name: kept };
}
