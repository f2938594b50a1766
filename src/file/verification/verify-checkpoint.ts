/** `verifyCheckpoint`: lists every problem of a checkpoint, given by a path or by a function that opens it. */

import { basename, join } from 'node:path';
import {
  argumentTypeError,
  type OptionNames,
  requireBoolean,
  requireOptions,
} from '../../errors/arguments.js';
import { SafetensorsError } from '../../errors/errors.js';
import { closeFile } from '../../platform/io/file-calls.js';
import { openRegularFile } from '../../platform/io/opened-file.js';
import { pathText } from '../../platform/io/paths.js';
import { runAsync, type Steps } from '../../platform/io/steps.js';
import {
  requireTransferOptions,
  TRANSFER_OPTIONS,
  type TransferOptions,
} from '../../platform/transfer/transfer.js';
import { type CheckpointFiles, namedFiles, type ShardFile } from '../checkpoint/find-files.js';
import { findCheckpoint, findFolder } from '../checkpoint/open.js';
import { findModels } from '../checkpoint/open-pipeline.js';
import { type FoundModel, modelsOf } from '../checkpoint/pipeline.js';
import { type VerifiableSource, verifyHeaders } from '../checkpoint/verify.js';
import { readFileHeader } from '../read-header.js';
import { PIPELINE_FILE } from '../shards/file-names.js';
import {
  type CheckpointCheck,
  type CheckpointProblem,
  isOfFile,
  problemOf,
  VerificationError,
} from '../shards/verification-error.js';
import { missingComponent } from '../source/pipeline.js';
import { type ClaimingFile, verifyClaims } from './verify-claims.js';

/** Options of {@link verifyCheckpoint}. */
export interface VerifyOptions extends TransferOptions {
  /**
   * Whether to read bytes and compare them with the hashes that files claim, and with the checksums of archives of
   * torch and NumPy; `true` by default.
   */
  readonly hashes?: boolean | undefined;
  /** As for `openCheckpoint`; only with a path, since a function chooses by itself. */
  readonly variant?: string | undefined;
  /** As for `openCheckpoint`; only with a path. */
  readonly revision?: string | undefined;
}

const VERIFIABLE = 'a path, a file: URL, or a function that opens a source';

const VERIFY_OPTIONS: OptionNames<VerifyOptions> = {
  ...TRANSFER_OPTIONS,
  hashes: true,
  variant: true,
  revision: true,
};

/** Checks that read all bytes. */
const OF_BYTES: readonly CheckpointCheck[] = ['hashes', 'checksums'];

/** The result of {@link verifyCheckpoint}. */
export interface VerificationReport {
  /** Whether there are no problems. */
  readonly ok: boolean;
  /** The checks that were made. */
  readonly checks: readonly CheckpointCheck[];
  /** All problems, file by file; in a pipeline of several models file names include the folder. */
  readonly problems: readonly CheckpointProblem[];
}

/** The findings so far. */
interface Found {
  readonly problems: CheckpointProblem[];
  readonly good: ClaimingFile[];
  hasIndex: boolean;
}

/**
 * Lists every problem of a checkpoint.
 *
 * A path means a safetensors file, a checkpoint, a pipeline of diffusers or a repository in the Hub's cache: headers,
 * index and shards both ways, `total_size`, shards that are missing or cannot be read, folders that a pipeline names and
 * that are missing, and the hashes that metadata
 * (`modelspec.hash_sha256`, `sshs_model_hash`, `sshs_legacy_hash`, `safetensors-mmap.sha256` of every tensor) and the
 * Hub's cache claim. Maps nothing; files with claims are read once, in pieces of 4 MiB.
 *
 * A function opens anything else: with `openTorchCheckpoint`, `openNumpy`, `openDduf` or `openRemote`. Its result is verified by
 * `verify()`, and closed; an error of this package that it throws is the problem, or has all problems. Pass
 * safetensors on this machine by its path, and torch and remote pipelines with `toVerify: true`: `openCheckpoint`,
 * `openTorchCheckpoint` and `openRemotePipeline` otherwise stop at the first shard or model that is missing or bad.
 *
 * @throws Error for other failures: Node's own `ENOENT` for a missing path, `EMFILE` and the like;
 *   `SAFETENSORS_NOT_IN_CACHE`; `signal.reason`
 *
 * @example
 * ```ts
 * const { ok, problems } = await verifyCheckpoint('my-model');
 * for (const { file, code, message } of problems) console.log(file, code, message);
 * console.log(ok); // → true
 *
 * const { checks } = await verifyCheckpoint(() => openTorchCheckpoint('model.ckpt'));
 * console.log(checks); // → [ 'headers', 'checksums' ]
 * ```
 */
export async function verifyCheckpoint(
  source: string | URL | (() => VerifiableSource | Promise<VerifiableSource>),
  options: VerifyOptions = {},
): Promise<VerificationReport> {
  requireOptions(options, VERIFY_OPTIONS);
  requireTransferOptions(options);
  const { hashes = true, signal } = options;
  requireBoolean('hashes', hashes);
  if (typeof source === 'function') return await verifyOpened(source, options);
  const found: Found = { problems: [], good: [], hasIndex: false };
  await runAsync(verifyModel('', pathText('source', source, VERIFIABLE), options, found), signal);
  const { problems, good, hasIndex } = found;
  if (hashes) problems.push(...(await verifyClaims(good, options)));
  const checks: CheckpointCheck[] = ['headers'];
  if (hasIndex) checks.push('index');
  if (hashes) checks.push('hashes');
  return { ok: problems.length === 0, checks, problems };
}

async function verifyOpened(
  open: () => VerifiableSource | Promise<VerifiableSource>,
  { hashes = true, signal, onProgress, variant, revision }: VerifyOptions,
): Promise<VerificationReport> {
  for (const [name, value] of Object.entries({ variant, revision })) {
    if (value !== undefined) throw argumentTypeError(name, 'undefined beside a function', value);
  }
  signal?.throwIfAborted();
  let source: VerifiableSource | undefined;
  let problems: readonly CheckpointProblem[] = [];
  try {
    source = await open();
    requireVerifiable(source);
    await source.verify({ signal, onProgress, checksums: hashes });
  } catch (error) {
    problems = problemsOf(error);
  } finally {
    if (typeof source?.close === 'function') source.close();
  }
  const { checks = ['headers'] } = source ?? {};
  const compared = checks.filter((check) => hashes || !OF_BYTES.includes(check));
  return { ok: problems.length === 0, checks: compared, problems };
}

function requireVerifiable(source: Partial<VerifiableSource> | null | undefined): void {
  const { verify, close, checks } = source ?? {};
  const isOpen = typeof verify === 'function' && typeof close === 'function';
  if (isOpen && Array.isArray(checks)) return;
  throw argumentTypeError('the result of source()', 'an open checkpoint', source);
}

/** Returns the problems in an error, or the error as one; rethrows an error that does not concern the files. */
function problemsOf(error: unknown): readonly CheckpointProblem[] {
  if (error instanceof VerificationError) return error.problems;
  if (!isOwnOfFile(error)) throw error;
  return [problemOf(error.path ?? '', error)];
}

/** An error of the system means that the path cannot be opened. */
function isOwnOfFile(error: unknown): error is SafetensorsError {
  return error instanceof SafetensorsError && isOfFile(error);
}

/** Adds the findings of one model, or of each model of a pipeline. `prefix` stands before file names. */
function* verifyModel(
  prefix: string,
  source: string,
  { variant, revision }: Pick<VerifyOptions, 'variant' | 'revision'>,
  found: Found,
): Steps<void> {
  let files: CheckpointFiles;
  try {
    files = yield* findCheckpoint(source, { variant, revision });
  } catch (error) {
    if (!isOwnOfFile(error)) throw error;
    const { code, path = source } = error;
    if (code === 'SAFETENSORS_DIFFUSERS_PIPELINE') {
      const pipeline = yield* findFolder(source, revision);
      yield* verifyModels(pipeline, variant, found);
      return;
    }
    if (code !== 'SAFETENSORS_MISSING_SHARDS') {
      found.problems.push(problemOf(prefix + basename(path), error));
      return;
    }
    files = yield* namedFiles(path, {});
  }
  found.hasIndex ||= files.index !== null;
  const problems = yield* verifyHeaders(files, function* (shard) {
    const file = yield* readShard(prefix, files.shards[shard] as ShardFile);
    found.good.push(file);
    return file.header;
  });
  // One by one, because a call cannot take that many arguments.
  for (const problem of problems) {
    found.problems.push({ ...problem, file: prefix + problem.file });
  }
}

/** Adds the findings of every model of a pipeline, and the folders that are missing. */
function* verifyModels(pipeline: string, variant: string | undefined, found: Found): Steps<void> {
  let models: readonly FoundModel[];
  try {
    const { missing, ...wanted } = yield* findModels(pipeline, variant);
    for (const name of missing) found.problems.push(missingComponent(name, pipeline));
    models = wanted.models;
  } catch (error) {
    if (!isOwnOfFile(error)) throw error;
    found.problems.push(problemOf(PIPELINE_FILE, error));
    models = yield* modelsOf(pipeline, variant);
  }
  for (const { path, name, variant } of models) {
    yield* verifyModel(`${name}/`, join(pipeline, path), { variant, revision: undefined }, found);
  }
}

/** Opens a shard, reads its header, and closes it: there may be more shards than descriptors. */
function* readShard(prefix: string, { name, path }: ShardFile): Steps<ClaimingFile> {
  const file = yield* openRegularFile(path, path);
  try {
    const { header } = yield* readFileHeader(file, { path });
    return { name: prefix + name, path, header, byteLength: file.byteLength };
  } finally {
    yield* closeFile(file.fd);
  }
}
