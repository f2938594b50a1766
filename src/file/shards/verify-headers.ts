/** Finds every problem of the headers and the index of a checkpoint, wherever its files are. */

import type { Work } from '../../work/work.js';
import type { CheckpointIndex } from './checkpoint-index.js';
import { type CheckedContents, IndexCheck } from './checkpoint-index-check.js';
import { isOfFile, problemOf } from './file-problems.js';
import { impliedIndex, type ShardNames } from './implied-index.js';
import type { CheckpointProblem } from './verification-report.js';

/** What was found of a checkpoint without its headers. */
export interface FoundShards {
  readonly index: CheckpointIndex | null;
  /** Whether there are shards without an index. */
  readonly isIndexMissing?: boolean | undefined;
  /** File name of the index or of the only file. */
  readonly name: string;
  /** Names of the shards. */
  readonly names: readonly string[];
  /** Problems that file names show. */
  readonly problems?: readonly CheckpointProblem[] | undefined;
}

/**
 * Compares names, shards and total size. `headerOf` returns the header of a shard, by its position, or throws. The
 * event loop may turn between shards.
 *
 * @throws Error for failures that are not a file's fault: FileClosedError, Node's own `EMFILE` and the like
 */
export function* verifyHeaders(
  { index, name, names, isIndexMissing = false, problems = [] }: FoundShards,
  headerOf: (shard: number) => Work<CheckedContents>,
): Work<CheckpointProblem[]> {
  const check = new IndexCheck(index, name, names);
  const unindexed: ShardNames[] = [];
  for (const [shard, shardName] of names.entries()) {
    try {
      const header = yield* headerOf(shard);
      if (isIndexMissing) unindexed.push({ name: shardName, header });
      check.add(shard, header);
    } catch (error) {
      if (!isOfFile(error)) throw error;
      check.addUnreadable(shard, error);
    }
    yield;
  }
  return [...problems, ...check.finish(), ...(yield* repeatedTensors(unindexed, name))];
}

/** The problem of shards without an index that have a tensor twice. */
function* repeatedTensors(shards: readonly ShardNames[], name: string): Work<CheckpointProblem[]> {
  try {
    if (shards.length > 0) yield* impliedIndex(shards, name);
    return [];
  } catch (error) {
    if (!isOfFile(error)) throw error;
    return [problemOf(name, error)];
  }
}
