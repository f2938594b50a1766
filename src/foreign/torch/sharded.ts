/** Checkpoints of torch in several files, by their index. */

import { indexedFiles } from '../../checkpoint/find-files.js';
import { LazyShards } from '../../checkpoint/lazy-shards.js';
import { type ForeignFormatError, FormatError, quoteName } from '../../errors/errors.js';
import { runSync } from '../../io/steps.js';
import type { CheckpointIndex } from '../../shards/checkpoint-index.js';
import type { ForeignShard } from '../foreign-shard.js';
import { TorchCheckpoint, type TorchFacts } from './checkpoint.js';

/** Shards of torch end so. */
const TORCH_SHARD_EXTENSION = '.bin';

/** An open file, and what it has beside its tensors. */
export interface TorchFile {
  readonly shard: ForeignShard;
  readonly facts: TorchFacts;
}

/**
 * Opens an index and all its shards.
 *
 * @throws FormatError for a bad index; `SAFETENSORS_INDEX_MISMATCH` when a shard lacks a tensor that the
 *   index names; SafetensorsError `SAFETENSORS_MISSING_SHARDS`
 */
export function openSharded(
  path: string,
  maxIndexByteLength: number | undefined,
  open: (path: string) => TorchFile,
): TorchCheckpoint {
  const options = { maxIndexByteLength, shardExtension: TORCH_SHARD_EXTENSION };
  const files = runSync(indexedFiles(path, options));
  const opened: TorchFile[] = [];
  try {
    for (const shard of files.shards) opened.push(open(shard.path));
    const facts = {
      root: opened[0]?.facts.root ?? [],
      values: new Map(files.shards.map(({ name }, i) => [name, opened[i]?.facts.values ?? null])),
      problems: shardProblems(files.index as CheckpointIndex, opened, path),
    };
    const shards = opened.map(({ shard }) => shard);
    return new TorchCheckpoint(LazyShards.ofOpen(files, shards), facts);
  } catch (error) {
    for (const { shard } of opened) shard.close();
    throw error;
  }
}

/**
 * Why tensors that the index names cannot be had, in the order of the shards. A shard may have more than it names.
 *
 * @throws FormatError `SAFETENSORS_INDEX_MISMATCH`
 */
function shardProblems(
  index: CheckpointIndex,
  files: readonly TorchFile[],
  path: string,
): ForeignFormatError[] {
  const shardOf = (name = ''): number => {
    const entry = index.find(name);
    return entry === -1 ? -1 : index.shardOf(entry);
  };
  const problems = files.flatMap(({ facts }, i) =>
    facts.problems.filter(({ tensor }) => shardOf(tensor) === i),
  );
  const leftOut = new Set(problems.map(({ tensor }) => tensor));
  const missing = index.names().filter((name) => {
    const { shard } = files[shardOf(name)] as TorchFile;
    return shard.contents.find(name) === -1 && !leftOut.has(name);
  });
  const [first] = missing;
  if (first === undefined) return problems;
  const { shard } = files[shardOf(first)] as TorchFile;
  const message =
    `expected the tensor in ${quoteName(shard.path ?? '')}, found none ` +
    `(${missing.length} of ${index.size} are missing)`;
  throw new FormatError('SAFETENSORS_INDEX_MISMATCH', message, { path, tensor: first });
}
