/** `verifyCheckpoint`: verifies a checkpoint of any format, given by a path or a function that opens it. */

import { basename, join } from 'node:path';
import {
  argumentTypeError,
  type OptionNames,
  requireBoolean,
  requireOptions,
} from '../errors/arguments.js';
import { FormatError, SafetensorsError } from '../errors/errors.js';
import { type CheckpointFiles, namedFiles, type ShardFile } from '../file/checkpoint/find-files.js';
import { findCheckpoint, findFolder } from '../file/checkpoint/open.js';
import { componentFiles, findModels } from '../file/checkpoint/open-pipeline.js';
import { modelsOf } from '../file/checkpoint/pipeline.js';
import { type VerifiableSource, verifyHeaders } from '../file/checkpoint/verify.js';
import { readFileHeader } from '../file/read-header.js';
import { requireModelFile } from '../file/require-model.js';
import { isDdufName, PIPELINE_FILE } from '../file/shards/file-names.js';
import type { Component } from '../file/shards/pipeline-files.js';
import { isOfFile, problemOf, VerificationError } from '../file/shards/verification-error.js';
import {
  type CheckpointCheck,
  type CheckpointProblem,
  reportOf,
  unverifiedFile,
  type VerificationReport,
  type VerifiedFile,
} from '../file/shards/verification-report.js';
import { missingComponent } from '../file/source/pipeline.js';
import type { RootKeys } from '../file/source/plain-value.js';
import {
  type ClaimingFile,
  type ComparedFiles,
  verifyClaims,
} from '../file/verification/verify-claims.js';
import type { OpenDdufOptions } from '../foreign/dduf/open.js';
import type { VoidDtype } from '../foreign/numpy/item-types.js';
import type { UnknownGlobals } from '../foreign/torch/state-dict/builders.js';
import { closeFile } from '../platform/io/file-calls.js';
import { openRegularFile } from '../platform/io/opened-file.js';
import { pathText } from '../platform/io/paths.js';
import {
  requireTransferOptions,
  TRANSFER_OPTIONS,
  type TransferOptions,
} from '../work/transfer.js';
import { runAsync, type Work } from '../work/work.js';
import { type DetectedFormat, detectFormat } from '../write/convert/detect-format.js';
import { requireUsed } from '../write/convert/used-options.js';

/** Options of `verifyCheckpoint`. */
export interface VerifyOptions extends TransferOptions {
  /**
   * Whether to read bytes and compare them with the hashes that files declare, and with the checksums of archives of
   * torch, NumPy and DDUF; `true` by default.
   */
  readonly hashes?: boolean | undefined;
  /** As for `safeOpen`; not with a function, which chooses by itself. */
  readonly variant?: string | undefined;
  /** As for `safeOpen`; not with a function. */
  readonly revision?: string | undefined;
  /** As for `open`; not with a function. */
  readonly root?: string | RootKeys | undefined;
  /** As for `open`; not with a function. */
  readonly unknownGlobals?: UnknownGlobals | undefined;
  /** As for `open`; not with a function. */
  readonly voidDtype?: VoidDtype | undefined;
}

/** The code of a folder that holds several models. */
const PIPELINE = 'SAFETENSORS_DIFFUSERS_PIPELINE';

const VERIFIABLE = 'a path, a file: URL, or a function that opens a source';

const VERIFY_OPTIONS: OptionNames<VerifyOptions> = {
  ...TRANSFER_OPTIONS,
  hashes: true,
  variant: true,
  revision: true,
  root: true,
  unknownGlobals: true,
  voidDtype: true,
};

/** The findings so far. */
interface Found {
  readonly problems: CheckpointProblem[];
  /** Files by name; null for those that are missing or invalid. */
  readonly files: Map<string, ClaimingFile | null>;
  hasIndex: boolean;
}

type Open = () => VerifiableSource | Promise<VerifiableSource>;

/** Options that choose what to open. */
type Choice = Pick<VerifyOptions, 'variant' | 'revision' | 'root' | 'unknownGlobals' | 'voidDtype'>;

/** As the public `verifyCheckpoint`. */
export async function verifyCheckpoint(
  source: string | URL | (() => VerifiableSource | Promise<VerifiableSource>),
  options: VerifyOptions = {},
): Promise<VerificationReport> {
  requireOptions(options, VERIFY_OPTIONS);
  requireTransferOptions(options);
  const { hashes = true, signal, onProgress, ...choice } = options;
  requireBoolean('hashes', hashes);
  const transfer: TransferOptions = { signal, onProgress };
  if (typeof source === 'function') {
    for (const [name, value] of Object.entries(choice)) {
      if (value !== undefined) throw argumentTypeError(name, 'undefined beside a function', value);
    }
    return await verifyOpened(source, hashes, transfer);
  }
  const path = pathText('source', source, VERIFIABLE);
  const place = await placeOf(path, choice);
  return typeof place === 'function'
    ? await verifyOpened(place, hashes, transfer)
    : await verifyPath(place.path, choice, hashes, transfer);
}

/** Returns how to open a file of another format, or the path of safetensors. */
async function placeOf(source: string, choice: Choice): Promise<Open | { readonly path: string }> {
  const { variant, revision, voidDtype, ...ofTorch } = choice;
  if (isDdufName(source)) {
    requireUsed(choice, 'safetensors');
    const { openDduf } = await import('../foreign/dduf/open.js');
    const named = revision === undefined ? { variant } : { variant, revision };
    const opening: OpenDdufOptions = { storage: 'read', toVerify: true, ...named };
    return () => openDduf(source, opening);
  }
  const { format, path, foundFormat } = await formatAt(source, choice);
  if (foundFormat === 'gguf') {
    const message = 'expected a file that can be verified, found a GGUF file';
    throw new FormatError('SAFETENSORS_FOREIGN_FORMAT', message, { path });
  }
  requireUsed(choice, format ?? 'safetensors');
  if (format === 'torch') {
    const { openTorchCheckpoint } = await import('../foreign/torch/open.js');
    return () => openTorchCheckpoint(path, { ...ofTorch, toVerify: true });
  }
  if (format === 'numpy') {
    const { openNumpy } = await import('../foreign/numpy/open-numpy.js');
    return () => openNumpy(path, { voidDtype });
  }
  return { path };
}

/** A variant or a revision means safetensors. An unreadable file does, too: its error becomes the problem. */
async function formatAt(source: string, { variant, revision }: Choice): Promise<DetectedFormat> {
  if (variant !== undefined || revision !== undefined)
    return { path: source, format: null, foundFormat: null };
  try {
    return await detectFormat(source);
  } catch (error) {
    if (!isOfFile(error)) throw error;
    return { path: Object(error).path ?? source, format: null, foundFormat: null };
  }
}

async function verifyPath(
  path: string,
  choice: Choice,
  hashes: boolean,
  transfer: TransferOptions,
): Promise<VerificationReport> {
  const found: Found = { problems: [], files: new Map(), hasIndex: false };
  await runAsync(verifySource(path, choice, found), transfer.signal);
  const { problems, files, hasIndex } = found;
  const readable = [...files.values()].filter((file) => file !== null);
  const compared = hashes ? await verifyClaims(readable, transfer) : skipped(readable);
  problems.push(...compared.problems);
  const byName = new Map(compared.files.map((file) => [file.file, file]));
  const all = Array.from(files.keys(), (name): VerifiedFile => {
    return byName.get(name) ?? unverifiedFile(name, 0, 'unreadable');
  });
  const checks: readonly CheckpointCheck[] = hasIndex ? ['headers', 'index'] : ['headers'];
  return reportOf(checks, problems, all);
}

function skipped(files: readonly ClaimingFile[]): ComparedFiles {
  const unread = files.map(({ name, header }) => unverifiedFile(name, header.size, 'skipped'));
  return { problems: [], files: unread };
}

async function verifyOpened(
  open: Open,
  checksums: boolean,
  transfer: TransferOptions,
): Promise<VerificationReport> {
  transfer.signal?.throwIfAborted();
  let source: VerifiableSource | undefined;
  try {
    source = await open();
    requireVerifiable(source);
    return await source.verify({ ...transfer, checksums });
  } catch (error) {
    if (error instanceof VerificationError) return error.report;
    if (!isOwnOfFile(error)) throw error;
    return reportOf(['headers'], [problemOf(error.path ?? '', error)], []);
  } finally {
    if (typeof source?.close === 'function') source.close();
  }
}

function requireVerifiable(source: Partial<VerifiableSource> | null | undefined): void {
  const { verify, close, checks } = source ?? {};
  const isOpen = typeof verify === 'function' && typeof close === 'function';
  if (isOpen && Array.isArray(checks)) return;
  throw argumentTypeError('the result of source()', 'an open checkpoint', source);
}

/** An error of the system means that the path cannot be opened. */
function isOwnOfFile(error: unknown): error is SafetensorsError {
  return error instanceof SafetensorsError && isOfFile(error);
}

/** Adds the findings of one model, or of each model of a pipeline. */
function* verifySource(
  source: string,
  { variant, revision }: Pick<Choice, 'variant' | 'revision'>,
  found: Found,
): Work<void> {
  try {
    yield* verifyModel('', source, findCheckpoint(source, { variant, revision }), found);
  } catch (error) {
    const isOfPipeline = error instanceof SafetensorsError && error.code === PIPELINE;
    if (!isOfPipeline) throw error;
    yield* verifyModels(yield* findFolder(source, revision), variant, found);
  }
}

/**
 * Adds the findings of one model. `prefix` stands before file names, and `source` is the path without that of its error.
 * Throws for a pipeline.
 */
function* verifyModel(
  prefix: string,
  source: string,
  find: Work<CheckpointFiles>,
  found: Found,
): Work<void> {
  let files: CheckpointFiles;
  try {
    files = yield* find;
  } catch (error) {
    if (!isOwnOfFile(error) || error.code === PIPELINE) throw error;
    const { code, path = source } = error;
    if (code !== 'SAFETENSORS_MISSING_SHARDS') {
      const isOfFolder = prefix !== '' && path === source;
      const problem = problemOf(isOfFolder ? basename(path) : prefix + basename(path), error);
      found.problems.push(problem);
      if (prefix !== '') found.files.set(problem.file, null);
      return;
    }
    files = yield* namedFiles(path, {});
  }
  found.hasIndex ||= files.index !== null;
  for (const { name } of files.shards) found.files.set(prefix + name, null);
  const problems = yield* verifyHeaders(files, function* (shard) {
    const isIndexed = files.index !== null;
    const file = yield* readShard(prefix, files.shards[shard] as ShardFile, isIndexed);
    found.files.set(file.name, file);
    return file.header;
  });
  // One by one, because a call cannot take that many arguments.
  for (const problem of problems) {
    found.problems.push({ ...problem, file: prefix + problem.file });
  }
}

/** Adds the findings of every model of a pipeline, and the folders that are missing. */
function* verifyModels(pipeline: string, variant: string | undefined, found: Found): Work<void> {
  let models: readonly Component[];
  try {
    const { missing, ...wanted } = yield* findModels(pipeline, variant);
    for (const name of missing) found.problems.push(missingComponent(name, pipeline));
    models = wanted.models;
  } catch (error) {
    if (!isOwnOfFile(error)) throw error;
    found.problems.push(problemOf(PIPELINE_FILE, error));
    models = yield* modelsOf(pipeline);
  }
  for (const model of models) {
    const files = componentFiles(pipeline, model, {});
    yield* verifyModel(`${model.name}/`, join(pipeline, model.name), files, found);
  }
}

/** Opens a shard, reads its header, and closes it: there may be more shards than descriptors. */
function* readShard(
  prefix: string,
  { name, path }: ShardFile,
  isIndexed: boolean,
): Work<ClaimingFile> {
  const file = yield* openRegularFile(path, path);
  try {
    const { header } = yield* readFileHeader(file, { path });
    yield* requireModelFile({ header, file, path, isIndexed });
    return { name: prefix + name, path, header, byteLength: file.byteLength };
  } finally {
    yield* closeFile(file.fd);
  }
}
