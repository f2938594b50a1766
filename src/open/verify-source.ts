/** Verifies local checkpoints of any format, and open handles. */

import { basename, join } from 'node:path';
import { SafetensorsError } from '../errors/errors.js';
import type { Checkpoint } from '../file/checkpoint/checkpoint.js';
import type { CheckpointFiles, ShardFile } from '../file/checkpoint/find-files.js';
import { type FoundSource, findSource, isPipelineAt } from '../file/checkpoint/find-source.js';
import { safeOpenAsync } from '../file/checkpoint/open.js';
import { findComponent, findModels, openPipeline } from '../file/checkpoint/open-pipeline.js';
import { modelsOf } from '../file/checkpoint/pipeline.js';
import { foundShards, type VerifiableSource } from '../file/checkpoint/verify.js';
import { readFileHeader } from '../file/read-header.js';
import { requireModelFile } from '../file/require-model.js';
import { isDdufName, PIPELINE_FILE } from '../file/shards/file-names.js';
import { isOfFile, problemOf } from '../file/shards/file-problems.js';
import type { Component } from '../file/shards/pipeline-files.js';
import {
  type CheckpointCheck,
  type CheckpointProblem,
  reportOf,
  unverifiedFile,
  type VerificationReport,
  type VerifiedFile,
} from '../file/shards/verification-report.js';
import { verifyHeaders } from '../file/shards/verify-headers.js';
import { missingComponent, type Pipeline } from '../file/source/pipeline.js';
import { withRanks } from '../file/source/ranks-found.js';
import type { VerifyBytesOptions } from '../file/source/verify-options.js';
import {
  type ComparedFiles,
  type DeclaringFile,
  verifyDeclaredHashes,
} from '../file/verification/verify-declared-hashes.js';
import type { OpenDdufOptions } from '../foreign/dduf/open.js';
import { closeFile } from '../platform/io/file-calls.js';
import { openRegularFile } from '../platform/io/opened-file.js';
import { requirePath } from '../platform/io/paths.js';
import { runAsync, type Work } from '../work/work.js';
import { type DetectedFormat, detectFormat } from '../write/convert/detect-format.js';
import { requireUsed } from '../write/convert/used-options.js';
import { unusedOption } from './sources/options.js';
import {
  isHandle,
  splitVerifyOptions,
  type VerifyChoice,
  type VerifyOptions,
  verifyHandle,
} from './sources/verify-handle.js';

const VERIFIABLE = 'a path, a file: URL, an open checkpoint or an open pipeline';

/** The findings so far. */
interface Found {
  readonly problems: CheckpointProblem[];
  /** Files by name; null for those that are missing or invalid. */
  readonly files: Map<string, DeclaringFile | null>;
  hasIndex: boolean;
}

type Open = () => VerifiableSource | Promise<VerifiableSource>;

/** As the public `verify`. */
export async function verifySource(
  source: string | URL | Pick<VerifiableSource, 'verify'>,
  options: VerifyOptions = {},
): Promise<VerificationReport> {
  if (isHandle(source)) return await verifyHandle(source, options);
  const [verifying, choices, values] = splitVerifyOptions(options);
  const { against, token, headers, fetch, ...choice } = choices;
  const path = requirePath('source', source, VERIFIABLE);
  const requests = { token, headers, fetch };
  if (against !== undefined) {
    const { headersOnly } = verifying;
    requireOnlyBytes({
      ...choice,
      headersOnly: headersOnly || undefined,
      values: values || undefined,
    });
    const { verifyAgainst } = await import('../remote/verification/verify-against.js');
    return await verifyAgainst(
      path,
      { against, revision: choice.revision, ...requests },
      verifying,
    );
  }
  for (const [name, value] of Object.entries(requests)) {
    if (value !== undefined)
      throw unusedOption(name, 'a source that is compared with no repository');
  }
  const place = await placeOf(path, choice);
  if (typeof place === 'function') return await verifyOpened(place, verifying, values);
  const report = await verifyPath(place.path, choice, verifying);
  return values ? await withValuesAt(place.path, choice, report, verifying) : report;
}

/** Options that select what to open have no meaning where all files are compared, whatever their format. */
function requireOnlyBytes({
  revision,
  ...others
}: Omit<VerifyChoice, 'against'> & Pick<VerifyOptions, 'headersOnly' | 'values'>): void {
  for (const [name, value] of Object.entries(others)) {
    if (value !== undefined) throw unusedOption(name, 'a comparison with the Hub');
  }
}

/** Returns how to open a file of another format, or the path of safetensors. */
async function placeOf(
  source: string,
  choice: VerifyChoice,
): Promise<Open | { readonly path: string }> {
  const { variant, revision, voidDtype, ...ofTorch } = choice;
  if (isDdufName(source)) {
    requireUsed(choice, 'safetensors');
    const { openDduf } = await import('../foreign/dduf/open.js');
    const named = revision === undefined ? { variant } : { variant, revision };
    const opening: OpenDdufOptions = { storage: 'read', skipFailed: true, ...named };
    return () => openDduf(source, opening);
  }
  const { format, path } = await formatAt(source, choice);
  requireUsed(choice, format ?? 'safetensors');
  if (format === 'torch') {
    const { openTorchCheckpoint } = await import('../foreign/torch/open.js');
    return () => openTorchCheckpoint(path, { ...ofTorch, skipFailed: true });
  }
  if (format === 'gguf') {
    const { openGguf } = await import('../foreign/gguf/open-gguf.js');
    return () => openGguf(path);
  }
  if (format === 'dcp') {
    const { openDistributed } = await import('../foreign/distributed/open-distributed.js');
    return () => openDistributed(path);
  }
  if (format === 'numpy') {
    const { openNumpy } = await import('../foreign/numpy/open-numpy.js');
    return () => openNumpy(path, { voidDtype });
  }
  return { path };
}

/** A variant or a revision means safetensors. An unreadable file does, too: its error becomes the problem. */
async function formatAt(
  source: string,
  { variant, revision }: VerifyChoice,
): Promise<DetectedFormat> {
  if (variant !== undefined || revision !== undefined)
    return { path: source, format: null, foundFormat: null };
  try {
    return await detectFormat(source);
  } catch (error) {
    if (!isOfFile(error)) throw error;
    return { path: Object(error).path ?? source, format: null, foundFormat: null };
  }
}

/** Adds the findings about the values of a model or a pipeline, if it can be opened. */
async function withValuesAt(
  path: string,
  { variant, revision }: VerifyChoice,
  report: VerificationReport,
  options: VerifyBytesOptions,
): Promise<VerificationReport> {
  const choice = { variant, revision };
  const isPipeline = await runAsync(isPipelineAt(path, choice), options.signal);
  let opened: Checkpoint | Pipeline<Checkpoint>;
  try {
    opened = isPipeline
      ? openPipeline(path, { ...choice, skipFailed: true })
      : await safeOpenAsync(path, { ...choice, signal: options.signal });
  } catch (error) {
    if (!isProblem(error) || report.ok) throw error;
    return report;
  }
  try {
    const { withValues } = await import('./sources/verify-values.js');
    return await withValues(report, opened, options);
  } finally {
    opened.close();
  }
}

async function verifyPath(
  path: string,
  choice: VerifyChoice,
  { headersOnly = false, ...transfer }: VerifyBytesOptions,
): Promise<VerificationReport> {
  const found: Found = { problems: [], files: new Map(), hasIndex: false };
  await runAsync(findProblems(path, choice, found), transfer.signal);
  const { problems, files, hasIndex } = found;
  const readable = [...files.values()].filter((file) => file !== null);
  const compared = headersOnly ? skipped(readable) : await verifyDeclaredHashes(readable, transfer);
  problems.push(...compared.problems);
  const byName = new Map(compared.files.map((file) => [file.file, file]));
  const all = Array.from(files.keys(), (name): VerifiedFile => {
    return byName.get(name) ?? unverifiedFile(name, 0, 'unreadable');
  });
  const checks: readonly CheckpointCheck[] = hasIndex ? ['headers', 'index'] : ['headers'];
  return reportOf(checks, problems, all);
}

function skipped(files: readonly DeclaringFile[]): ComparedFiles {
  const unread = files.map(({ name, header }) => unverifiedFile(name, header.size, 'skipped'));
  return { problems: [], files: unread };
}

/** Opens a source, verifies it, and closes it. An error of opening that concerns the files is the only problem. */
export async function verifyOpened(
  open: Open,
  options: VerifyBytesOptions,
  values = false,
): Promise<VerificationReport> {
  options.signal?.throwIfAborted();
  let source: VerifiableSource;
  try {
    source = await open();
  } catch (error) {
    if (!isProblem(error)) throw error;
    return reportOf(['headers'], [problemOf(error.path ?? '', error)], []);
  }
  try {
    const report = await withRanks(await source.verify(options), source);
    if (!values) return report;
    const { withValues } = await import('./sources/verify-values.js');
    return await withValues(report, source, options);
  } finally {
    source.close();
  }
}

/** Whether an error is a problem of the files. A system error means that the path itself cannot be opened. */
function isProblem(error: unknown): error is SafetensorsError {
  return error instanceof SafetensorsError && isOfFile(error);
}

/** Adds the findings of one model, or of each model of a pipeline. */
function* findProblems(
  source: string,
  { variant, revision }: Pick<VerifyChoice, 'variant' | 'revision'>,
  found: Found,
): Work<void> {
  const opened = yield* unlessProblem(findSource(source, { variant, revision }));
  if (opened.kind === 'pipeline') yield* verifyModels(opened.path, variant, found);
  else if ('files' in opened) yield* verifyModel('', opened.files, found);
  else found.problems.push(problemOf(basename(opened.error.path ?? source), opened.error));
}

/** An error that concerns the files as the finding that there is no model. */
function* unlessProblem(find: Work<FoundSource>): Work<FoundSource> {
  try {
    return yield* find;
  } catch (error) {
    if (!isProblem(error)) throw error;
    return { kind: 'none', error };
  }
}

/** Adds the findings of one model. `prefix` precedes file names. */
function* verifyModel(prefix: string, files: CheckpointFiles, found: Found): Work<void> {
  found.hasIndex ||= files.index !== null;
  for (const { name } of files.shards) found.files.set(prefix + name, null);
  const problems = yield* verifyHeaders(foundShards(files), function* (shard) {
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
    if (!isProblem(error)) throw error;
    found.problems.push(problemOf(PIPELINE_FILE, error));
    models = yield* modelsOf(pipeline);
  }
  for (const model of models) {
    const prefix = `${model.name}/`;
    const opened = yield* unlessProblem(findComponent(pipeline, model, {}));
    if ('files' in opened) {
      yield* verifyModel(prefix, opened.files, found);
      continue;
    }
    const folder = join(pipeline, model.name);
    const { path = folder } = opened.error;
    const file = path === folder ? model.name : prefix + basename(path);
    found.problems.push(problemOf(file, opened.error));
    found.files.set(file, null);
  }
}

/** Opens a shard, reads its header, and closes it: there may be more shards than descriptors. */
function* readShard(
  prefix: string,
  { name, path }: ShardFile,
  isIndexed: boolean,
): Work<DeclaringFile> {
  const file = yield* openRegularFile(path, path);
  try {
    const { header } = yield* readFileHeader(file, { path });
    yield* requireModelFile({ header, file, path, isIndexed });
    return { name: prefix + name, path, header, byteLength: file.byteLength };
  } finally {
    yield* closeFile(file.fd);
  }
}
