/** Opens torch checkpoints in several files by their index. */

import { FormatError, quoteName, type SafetensorsError } from '../../errors/errors.js';
import { Checkpoint, type CheckpointInfo } from '../../file/checkpoint/checkpoint.js';
import { indexedFiles } from '../../file/checkpoint/find-files.js';
import { modelFiles } from '../../file/checkpoint/find-source.js';
import { LazyShards } from '../../file/checkpoint/lazy-shards.js';
import { checksOf, type VerifiableSource, verifyShards } from '../../file/checkpoint/verify.js';
import type { CheckpointIndex } from '../../file/shards/checkpoint-index.js';
import { missingTensor } from '../../file/shards/checkpoint-index-check.js';
import { isOfFile, problemOf } from '../../file/shards/file-problems.js';
import { TORCH_SHARD_EXTENSION } from '../../file/shards/shard-paths.js';
import type { CheckpointProblem } from '../../file/shards/verification-report.js';
import { runSync } from '../../work/work.js';
import type { ForeignShard } from '../foreign-shard.js';

/** An open file and its contents besides the tensors. */
export interface TorchFile {
  readonly shard: ForeignShard;
  readonly info: Required<Pick<CheckpointInfo, 'problems' | 'format' | 'root' | 'extra'>>;
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
): Checkpoint {
  const options = { maxIndexByteLength, shardExtension: TORCH_SHARD_EXTENSION };
  const files = modelFiles(runSync(indexedFiles(path, options)));
  const opened: TorchFile[] = [];
  try {
    for (const shard of files.shards) opened.push(open(shard.path));
    const extra = new Map(
      files.shards.map(({ name }, i) => [name, opened[i]?.info.extra() ?? null]),
    );
    const info = {
      format: 'torch',
      root: opened[0]?.info.root ?? [],
      extra: () => extra,
      problems: shardProblems(files.index as CheckpointIndex, opened, path),
    } as const;
    const shards = opened.map(({ shard }) => shard);
    return Checkpoint.of(LazyShards.ofOpen(files, shards.entries()), info);
  } catch (error) {
    for (const { shard } of opened) shard.close();
    throw error;
  }
}

/**
 * Opens an index and as many of its shards as possible. `verify` reports the problems of the others.
 *
 * @throws FormatError for a bad index; Error Node's own `EMFILE` and the like
 */
export function openShardsSkippingFailed(
  path: string,
  maxIndexByteLength: number | undefined,
  open: (path: string) => TorchFile,
): VerifiableSource {
  const options = { maxIndexByteLength, shardExtension: TORCH_SHARD_EXTENSION };
  const { files } = runSync(indexedFiles(path, options));
  const opened = new Map<number, ForeignShard>();
  const shards = (): LazyShards<ForeignShard> => LazyShards.ofOpen(files, opened);
  const problems: CheckpointProblem[] = [];
  for (const [i, { name, path: shardPath }] of files.shards.entries()) {
    try {
      const file = open(shardPath);
      opened.set(i, file.shard);
      for (const tensor of missingIn(files.index as CheckpointIndex, i, file)) {
        problems.push(missingTensor(name, tensor));
      }
    } catch (error) {
      if (!isOfFile(error)) {
        shards().close({});
        throw error;
      }
      problems.push(problemOf(name, error));
    }
  }
  const verified = shards();
  return {
    checks: checksOf(verified),
    verify: (verifying = {}) => verifyShards(verified, verifying, problems),
    close: () => verified.close({}),
  };
}

/** Names of tensors that the index places in a shard that lacks them. */
function missingIn(
  index: CheckpointIndex,
  shard: number,
  { shard: file, info }: TorchFile,
): string[] {
  const places = index.placesIn(shard, file.contents);
  const names = Array.from(index.entriesOf(shard), (entry) => index.name(entry));
  const unsupported = new Set(info.problems.map(({ tensor }) => tensor));
  return names.filter((name, i) => places[i] === -1 && !unsupported.has(name));
}

/**
 * The reasons why tensors cannot be read, one for each name, in the order of the shards: of tensors in the index, and
 * of tensors in a shard that the index does not list.
 *
 * @throws FormatError `SAFETENSORS_INDEX_MISMATCH`
 */
function shardProblems(
  index: CheckpointIndex,
  files: readonly TorchFile[],
  path: string,
): SafetensorsError[] {
  const shardOf = (name = ''): number => {
    const entry = index.find(name);
    return entry === -1 ? -1 : index.shardOf(entry);
  };
  const own = files.flatMap(({ info }, i) =>
    info.problems.filter(({ tensor }) => [i, -1].includes(shardOf(tensor))),
  );
  const problems = [...new Map(own.map((problem) => [problem.tensor, problem])).values()];
  const missing = files.flatMap((file, i) => missingIn(index, i, file));
  const [first] = missing;
  if (first === undefined) return problems;
  const { shard } = files[shardOf(first)] as TorchFile;
  const message =
    `expected the tensor in ${quoteName(shard.path ?? '')}, found none ` +
    `(${missing.length} of ${index.size} are missing)`;
  throw new FormatError('SAFETENSORS_INDEX_MISMATCH', message, { path, tensor: first });
}
