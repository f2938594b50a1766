/** Compares the headers of all files of a checkpoint with its index. */

import { basename } from 'node:path';
import type { Header } from '../../header/header.js';
import { here, runAsync, type Steps } from '../../platform/io/steps.js';
import { SafetensorsFile } from '../file.js';
import { IndexCheck } from '../shards/checkpoint-index-check.js';
import {
  type CheckpointCheck,
  type CheckpointProblem,
  isOfFile,
  problemOf,
  VerificationError,
} from '../shards/verification-error.js';
import { requireVerifyBytesOptions, type VerifyBytesOptions } from '../source/verify-options.js';
import type { CheckpointFiles } from './find-files.js';
import type { LazyShards } from './lazy-shards.js';
import { isOther, type OtherShard, type Shard } from './shard.js';
import { transferShards } from './transfer-shards.js';

/** An open source to verify, such as `Checkpoint`, `TorchCheckpoint` and `RemoteCheckpoint`. */
export interface VerifiableSource {
  /** The checks of `verify`. */
  readonly checks: readonly CheckpointCheck[];
  /**
   * Rejects with a `VerificationError` that has all problems. Reads bytes only with `'checksums'` in `checks`;
   * otherwise options besides `signal` change nothing.
   */
  verify(options?: VerifyBytesOptions): Promise<void>;
  /** Closes it. */
  close(): void;
}

/**
 * Finds every problem of headers and index: names, shards and total size. `headerOf` returns the header of a shard,
 * by its position, or throws. The event loop may turn between shards.
 *
 * @throws Error for failures that are not a file's fault: FileClosedError, Node's own `EMFILE` and the like
 */
export function* verifyHeaders(
  { index, path, shards }: CheckpointFiles,
  headerOf: (shard: number) => Steps<Header>,
): Steps<CheckpointProblem[]> {
  const check = new IndexCheck(index, basename(path));
  for (let shard = 0; shard < shards.length; shard++) {
    try {
      check.add(shard, yield* headerOf(shard));
    } catch (error) {
      if (!isOfFile(error)) throw error;
      check.addUnreadable(shard, error);
    }
    yield;
  }
  return check.finish();
}

/** Returns the checks of `verifyShards`. */
export function checksOf(shards: LazyShards<Shard>): readonly CheckpointCheck[] {
  const checks: CheckpointCheck[] =
    shards.files.index === null ? ['headers'] : ['headers', 'index'];
  const hasChecksums = [...shards.opened.values()].some((one) => isOther(one) && one.hasChecksums);
  return hasChecksums ? [...checks, 'checksums'] : checks;
}

/**
 * Makes the checks that opening leaves out: headers and index of safetensors, checksums of other formats. Their index
 * was compared when they were opened; `found` has the problems from then.
 *
 * @throws As `Checkpoint.verify`
 */
export async function verifyShards(
  shards: LazyShards<Shard>,
  options: VerifyBytesOptions,
  found: readonly CheckpointProblem[] = [],
): Promise<void> {
  requireVerifyBytesOptions(options);
  shards.requireOpen();
  const { path } = shards.files;
  const others = [...shards.opened].filter((each): each is [number, OtherShard] =>
    isOther(each[1]),
  );
  const isOfOthers = others.length > 0 || found.length > 0;
  const problems = isOfOthers
    ? [...found, ...(await verifyBytes(shards, others, options))]
    : await runAsync(verifyHeaders(shards.files, headersOf(shards)), options.signal);
  if (problems.length === 0) return;
  const isOfBytes = isOfOthers && found.length === 0;
  const code = isOfBytes ? 'SAFETENSORS_CHECKSUM_MISMATCH' : 'SAFETENSORS_INDEX_MISMATCH';
  throw new VerificationError(problems, path, code);
}

function headersOf(shards: LazyShards<Shard>): (shard: number) => Steps<Header> {
  return (shard) =>
    here(() => SafetensorsFile.contentOf(shards.open(shard) as SafetensorsFile).header);
}

async function verifyBytes(
  shards: LazyShards<Shard>,
  others: readonly (readonly [shard: number, file: OtherShard])[],
  { checksums = true, ...options }: VerifyBytesOptions,
): Promise<CheckpointProblem[]> {
  const problems: CheckpointProblem[] = [];
  if (!checksums) {
    options.signal?.throwIfAborted();
    for (const [, file] of others) file.verify();
    return problems;
  }
  const works = others.map(([shard, file]) => {
    return { file, name: shards.files.shards[shard]?.name ?? '', byteLength: file.byteLength };
  });
  const check = (): void => shards.requireOpen();
  await transferShards(works, options, check, ({ file, name }, shardOptions) =>
    file.verifyBytes(shardOptions, (problem) => problems.push(problemOf(name, problem))),
  );
  return problems;
}
