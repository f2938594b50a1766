/** Verifies a checkpoint: headers and index, hashes that files declare, checksums of other formats. */

import { basename } from 'node:path';
import type { Header } from '../../header/header.js';
import type { TransferOptions } from '../../work/transfer.js';
import { immediate, runAsync, type Work } from '../../work/work.js';
import { SafetensorsFile } from '../file.js';
import { isOfFile, problemOf } from '../shards/file-problems.js';
import {
  type CheckpointCheck,
  type CheckpointProblem,
  reportOf,
  unverifiedFile,
  type VerificationReport,
  type VerifiedFile,
  verifiedFile,
} from '../shards/verification-report.js';
import { type FoundShards, verifyHeaders } from '../shards/verify-headers.js';
import { requireVerifyBytesOptions, type VerifyBytesOptions } from '../source/verify-options.js';
import type { ComparedFiles, DeclaringFile } from '../verification/verify-declared-hashes.js';
import type { CheckpointFiles, ShardFile } from './find-files.js';
import type { LazyShards } from './lazy-shards.js';
import { isOther, type OtherShard, type Shard } from './shard.js';
import { transferShards } from './transfer-shards.js';

/** An open source to verify, such as `Checkpoint` and `RemoteCheckpoint`. */
export interface VerifiableSource {
  /** The checks of `verify`, except for hashes that files declare: its report lists those. */
  readonly checks: readonly CheckpointCheck[];
  /**
   * Resolves with the report, whatever its problems. Reads only the tensors of files that have checksums or declare
   * digests.
   *
   * @throws FileClosedError; Error Node's own `EMFILE` and the like; `signal.reason`
   */
  verify(options?: VerifyBytesOptions): Promise<VerificationReport>;
  /** Closes it. */
  close(): void;
}

/** The files as `verifyHeaders` takes them. */
export function foundShards({ path, shards, ...found }: CheckpointFiles): FoundShards {
  return { ...found, name: basename(path), names: shards.map(({ name }) => name) };
}

/** The checks of headers, and of the index where there is one. */
function headerChecks({ index, isIndexMissing }: CheckpointFiles): readonly CheckpointCheck[] {
  return index === null || isIndexMissing === true ? ['headers'] : ['headers', 'index'];
}

/** Returns the checks of `verifyShards`. */
export function checksOf(shards: LazyShards<Shard>): readonly CheckpointCheck[] {
  const checks = headerChecks(shards.files);
  const hasChecksums = [...shards.opened.values()].some((one) => isOther(one) && one.hasChecksums);
  return hasChecksums ? [...checks, 'checksums'] : checks;
}

/**
 * Makes the checks that opening leaves out: of safetensors, headers, index and declared hashes; of other formats,
 * checksums. Their index was compared when they were opened; `found` has the problems from then.
 *
 * @throws As `Checkpoint.verify`
 */
export async function verifyShards(
  shards: LazyShards<Shard>,
  options: VerifyBytesOptions,
  found: readonly CheckpointProblem[] = [],
): Promise<VerificationReport> {
  requireVerifyBytesOptions(options);
  shards.requireOpen();
  const others = [...shards.opened].filter((each): each is [number, OtherShard] =>
    isOther(each[1]),
  );
  const isOfOthers = others.length > 0 || found.length > 0;
  const structure = isOfOthers
    ? found
    : await runAsync(verifyHeaders(foundShards(shards.files), headersOf(shards)), options.signal);
  const compared = isOfOthers
    ? await verifyOthers(shards, others, options)
    : await verifyOwn(shards as LazyShards, options);
  // Other threads may have hashed all bytes before this one could see the abort.
  options.signal?.throwIfAborted();
  const problems = [...structure, ...compared.problems];
  return reportOf(headerChecks(shards.files), problems, compared.files);
}

function headersOf(shards: LazyShards<Shard>): (shard: number) => Work<Header> {
  return (shard) =>
    immediate(() => SafetensorsFile.contentOf(shards.open(shard) as SafetensorsFile).header);
}

/** The open safetensors files of a checkpoint that have not changed, with the names that the index has for them. */
export function declaringFiles(
  shards: LazyShards<Shard>,
): (DeclaringFile & { readonly shard: number })[] {
  return [...shards.opened].flatMap(([shard, file]) => {
    if (isOther(file) || !file.ok) return [];
    const { name, path } = shards.files.shards[shard] as ShardFile;
    const place = SafetensorsFile.placeOf(file);
    const header = SafetensorsFile.headerOf(file);
    return [{ name, path, place, header, byteLength: file.byteLength, shard }];
  });
}

/** Compares the bytes of files that could be opened with the hashes that they declare. */
async function verifyOwn(
  shards: LazyShards,
  { headersOnly = false, ...options }: VerifyBytesOptions,
): Promise<ComparedFiles> {
  const files = declaringFiles(shards);
  let compared: ComparedFiles;
  // Files are opened again to be hashed, by their paths.
  if (!headersOnly && shards.files.isUnplaced !== true) {
    // Loaded on first use, since most programs only read.
    const { verifyDeclaredHashes } = await import('../verification/verify-declared-hashes.js');
    compared = await verifyDeclaredHashes(files, options, (position) => {
      shards.requireOpen();
      SafetensorsFile.contentOf(shards.open(files[position]?.shard as number));
    });
  } else {
    const skipped = files.map(({ name, header }) => unverifiedFile(name, header.size, 'skipped'));
    compared = { problems: [], files: skipped };
  }
  return { ...compared, files: inOrder(shards, compared.files) };
}

/** Compares the bytes of files of other formats with their checksums. */
async function verifyOthers(
  shards: LazyShards<Shard>,
  others: readonly (readonly [shard: number, file: OtherShard])[],
  { headersOnly = false, ...options }: VerifyBytesOptions,
): Promise<ComparedFiles> {
  const problems: CheckpointProblem[] = [];
  const files: VerifiedFile[] = [];
  const works = others.map(([shard, file]) => {
    return { file, name: shards.files.shards[shard]?.name ?? '', byteLength: file.byteLength };
  });
  const verify = async (
    { file, name }: (typeof works)[number],
    transfer: TransferOptions,
  ): Promise<void> => {
    const { size } = file.contents;
    try {
      if (headersOnly) file.verify();
      else await file.verifyBytes(transfer, (problem) => problems.push(problemOf(name, problem)));
      if (headersOnly) files.push(unverifiedFile(name, size, 'skipped'));
      else if (file.hasChecksums) files.push(verifiedFile(name, size, 'checksums'));
      else files.push(unverifiedFile(name, size, 'no-checksums'));
    } catch (error) {
      if (!isOfFile(error)) throw error;
      problems.push(problemOf(name, error));
      files.push(unverifiedFile(name, size, 'unreadable'));
    }
  };
  if (headersOnly) {
    options.signal?.throwIfAborted();
    for (const work of works) await verify(work, {});
  } else {
    await transferShards(works, options, () => shards.requireOpen(), verify);
  }
  return { problems, files: inOrder(shards, files) };
}

/** The files of all shards, in the order of the index; those that could not be opened are unreadable. */
function inOrder(
  { files: { shards } }: LazyShards<Shard>,
  files: readonly VerifiedFile[],
): VerifiedFile[] {
  const byName = new Map(files.map((file) => [file.file, file]));
  return shards.map(({ name }) => byName.get(name) ?? unverifiedFile(name, 0, 'unreadable'));
}
