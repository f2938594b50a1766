/** Writes the tensors of a source into a folder, a file or a stream, for `convert`. */

import { statSync } from 'node:fs';
import { basename, dirname, join, sep } from 'node:path';
import { argumentRangeError, requireBoolean } from '../../errors/arguments.js';
import { canonicalFileNames, isIndexPath } from '../../file/shards/file-choice.js';
import type { RewrittenMetadata } from '../../file/shards/metadata.js';
import { identityOf } from '../../platform/io/file-calls.js';
import { runAsync } from '../../work/work.js';
import { SerializedStream, serializedPieces } from '../input/serialized.js';
import { requireMakeableFolder } from '../replacement/create-directories.js';
import type { OldFileCheck } from '../replacement/exchange.js';
import { requireNotInUse } from '../replacement/in-use.js';
import {
  type OverwriteOptions,
  OwnFiles,
  overwritePlan,
  replacedAmong,
  requireOverwrite,
} from '../replacement/replaced-files.js';
import { LeasedFiles } from '../save/leased-files.js';
import { replaceFile, requireReplaceableFile } from '../save/replace-file.js';
import { leaseSources } from '../save/serialize.js';
import type { SelectableInfo } from '../selection/options.js';
import type { SelectionReport } from '../selection/selection-report.js';
import { type CastWeights, type ConfigMismatch, mismatchesIn } from './cast-config.js';
import {
  castFiles,
  type DequantizedWeights,
  dequantizedFiles,
  quantizedConfigsIn,
} from './dequantized-files.js';
import {
  type WriteOrPlanOptions,
  type WrittenCheckpoint,
  withoutStaying,
  writeCheckpoint,
} from './execute-plan.js';
import { type CheckpointLayoutOptions, layOutCheckpoint, layOutFile } from './layout.js';
import { inCreatedFolder, inLockedFolder } from './locked-folder.js';
import type { OldFiles } from './old-files.js';
import {
  type CheckpointPlan,
  oldFilesBefore,
  planCheckpoint,
  plannedFile,
  type SharedTensors,
} from './plan.js';
import { type Choices, type SelectedTensors, selectTensors } from './selected-tensors.js';
import {
  type CopiedFiles,
  findOtherFiles,
  NO_OTHER_FILES,
  type OtherFilesOptions,
  type SidecarFiles,
} from './sidecar-files.js';
import type { CheckpointSource } from './source.js';

/** The tensors to write, and how. */
export interface RewriteOptions<Info extends SelectableInfo>
  extends Choices<Info>,
    CheckpointLayoutOptions,
    OtherFilesOptions,
    OverwriteOptions,
    WriteOrPlanOptions {}

/** The facts known before the first write. */
export interface RewriteInfo
  extends SharedTensors,
    CopiedFiles,
    Omit<SelectionReport, 'overflowed'> {
  /** Keys of metadata with differing values in the source's files, not all of which were kept. */
  readonly conflicts: readonly string[];
}

/** The result of the writes. */
export interface Rewritten
  extends WrittenCheckpoint,
    RewriteInfo,
    Pick<SelectionReport, 'overflowed'> {}

/** The result of a dry run. */
export interface RewritePlan extends CheckpointPlan, RewriteInfo {}

/** Opens a source on demand. */
type OpenCheckpointSource<Info extends SelectableInfo> = () => Promise<CheckpointSource<Info>>;

/**
 * Writes into a folder. Locks it before reading the source, because the source may be the same folder and another
 * process may be saving into it.
 *
 * @throws As `inLockedFolder`, `selectTensors`, `layOutCheckpoint` and `writeCheckpoint`; what `open` throws
 */
export async function rewriteFolder<Info extends SelectableInfo>(
  target: string | URL,
  open: OpenCheckpointSource<Info>,
  options: RewriteOptions<Info>,
): Promise<Rewritten | RewritePlan> {
  const { copyOtherFiles = false, overwrite = false, signal } = options;
  requireBoolean('copyOtherFiles', copyOtherFiles);
  requireBoolean('overwrite', overwrite);
  return await inLockedFolder(target, options, (folder) =>
    withSource(open, async (source) => {
      const { path } = source;
      const found = withGenerated(
        copyOtherFiles ? findOtherFiles(dirname(path), folder, basename(path)) : NO_OTHER_FILES,
        source,
      );
      const selected = await runAsync(selectTensors(source, options), signal);
      const { selection } = options;
      const { others, mismatches } = sidecarsOf(found, source, folder, { selection, ...selected });
      const layout = layOutCheckpoint(selected.table, options, selected.metadataOf);
      const checkpoint = await runAsync(layout, signal);
      const facts = rewriteInfo(selected, checkpoint.metadata, others, mismatches, source);
      const own = new OwnFiles(source.files);
      const unlisted = unlistedOwn(own, facts, source);
      if (options.dryRun === true) {
        const { replaced } = oldFilesBefore(folder, checkpoint, others, own);
        const needs = overwritePlan(replaced, { overwrite });
        return { ...planCheckpoint(folder, checkpoint, others, unlisted), ...facts, ...needs };
      }
      const findOld = (): OldFiles => {
        const found = oldFilesBefore(folder, checkpoint, others, own);
        requireOverwrite(found.replaced, folder, { overwrite });
        return found;
      };
      const old = findOld();
      const { replaced: listed } = oldFilesBefore(folder, checkpoint, others, unlisted);
      await source.verify?.(selected.tensors, signal);
      const written = await writeCheckpoint(folder, checkpoint, options, {
        otherFiles: others.files,
        obsolete: others.obsolete,
        old,
        verify: source.isReadBack,
        closeSources: () => source.close(),
        check: findOld,
      });
      const replaced = withoutStaying(listed, written);
      return { ...written, replaced, ...facts, overflowed: selected.report.overflowed };
    }),
  );
}

/**
 * Writes into the file of this path, and makes missing folders above it.
 *
 * @throws As `selectTensors`, `layOutFile` and `replaceFile`; what `open` throws
 */
export async function rewriteFile<Info extends SelectableInfo>(
  path: string,
  open: OpenCheckpointSource<Info>,
  options: RewriteOptions<Info>,
): Promise<Rewritten | RewritePlan> {
  const { durable = true, dryRun = false, overwrite = false, signal } = options;
  requireBoolean('durable', durable);
  requireBoolean('dryRun', dryRun);
  requireBoolean('overwrite', overwrite);
  return await withSource(open, async (source) => {
    if (options.selection.dequantize !== undefined) requireOtherFile(path, source);
    const selected = await runAsync(selectTensors(source, options), signal);
    const file = layOutFile(selected.table, selected.metadataOf, options.digests);
    const { layout, totalSize } = file;
    const name = basename(path);
    const isOpenedByFolder = canonicalFileNames(undefined).includes(name);
    const weights = { selection: options.selection, ...selected };
    const mismatches = isOpenedByFolder
      ? [...mismatchesIn(dirname(path), weights), ...quantizedConfigsIn(dirname(path), [], weights)]
      : [];
    const facts = rewriteInfo(selected, file.metadata, NO_OTHER_FILES, mismatches, source);
    const own = new OwnFiles(wholeSources(source));
    const foreign = replacedAmong(dirname(path), [name], own);
    const replaced = replacedAmong(dirname(path), [name], unlistedOwn(own, facts, source));
    requireMakeableFolder(dirname(path));
    requireReplaceableFile(path);
    if (dryRun) {
      const files = [plannedFile(name, layout)];
      const needs = overwritePlan(foreign, { overwrite });
      return { path, files, index: null, totalSize, deleted: [], replaced, ...facts, ...needs };
    }
    requireOverwrite(foreign, path, { overwrite });
    if (foreign.length > 0) requireNotInUse(path, path);
    await source.verify?.(selected.tensors, signal);
    const closeSources = (): void => source.close();
    const check = overwrite ? undefined : onlyOwnFile(path, own);
    await inCreatedFolder(dirname(path), durable, () =>
      replaceFile(path, layout, () => new LeasedFiles(file.samples), {
        ...options,
        ...{ durable, closeSources, check },
        verify: source.isReadBack ?? false,
      }),
    );
    const stale = { deleted: [], failedDeletions: [], replaced };
    const written = { path, files: [name], index: null, totalSize, ...stale };
    return { ...written, ...facts, overflowed: selected.report.overflowed };
  });
}

/** Files that are a source each. In place of a shard, a file of all tensors would contradict the index. */
function wholeSources({ files }: Pick<CheckpointSource, 'files'>): readonly string[] {
  const indexed = files.filter(isIndexPath).map((path) => join(dirname(path), sep));
  return files.filter((path) => !indexed.some((folder) => path.startsWith(folder)));
}

/** Returns a check that throws for weights which appeared at the path while the new file was written. */
function onlyOwnFile(path: string, own: OwnFiles): OldFileCheck {
  return (found) => {
    const stats = statSync(found, { bigint: true, throwIfNoEntry: false });
    if (stats === undefined || own.hasFile(stats)) return;
    const file = { name: basename(path), byteLength: Number(stats.size) };
    requireOverwrite([file], path, {});
  };
}

/**
 * The files of the source that `replaced` does not list: its weights only if it is the only source and all of its
 * tensors are written, and none twice.
 */
function unlistedOwn(
  own: OwnFiles,
  { excluded, duplicates }: Pick<RewriteInfo, 'excluded' | 'duplicates'>,
  { joined }: Pick<CheckpointSource, 'joined'>,
): OwnFiles {
  const isWhole = excluded.length === 0 && duplicates.length === 0 && joined === undefined;
  return isWhole ? own : own.withoutWeights();
}

/** A file that is made while it is read, and the facts known before. */
interface RewriteStream
  extends RewriteInfo,
    Pick<SelectionReport, 'overflowed'>,
    Pick<WrittenCheckpoint, 'totalSize'> {
  readonly stream: SerializedStream;
  /** Closes the source. The stream does so when its reading ends. */
  close(): void;
}

/**
 * Makes one file of all tensors, as a stream.
 *
 * @throws As `selectTensors` and `layOutFile`; what `open` throws. The stream as `serializeStream`
 */
export async function rewriteStream<Info extends SelectableInfo>(
  open: OpenCheckpointSource<Info>,
  options: Choices<Info> & Pick<WriteOrPlanOptions, 'signal'>,
): Promise<RewriteStream> {
  const { signal } = options;
  const source = await open();
  try {
    const selected = await runAsync(selectTensors(source, options), signal);
    const { layout, totalSize, samples, metadata } = layOutFile(
      selected.table,
      selected.metadataOf,
    );
    await source.verify?.(selected.tensors, signal);
    async function* pieces(): AsyncGenerator<Uint8Array<ArrayBuffer>, void, void> {
      try {
        yield* serializedPieces(layout, () => leaseSources(samples), signal);
      } finally {
        source.close();
      }
    }
    const stream = SerializedStream.of(layout.byteLength, pieces);
    const facts = rewriteInfo(selected, metadata, NO_OTHER_FILES, [], source);
    const { overflowed } = selected.report;
    return { stream, totalSize, ...facts, overflowed, close: () => source.close() };
  } catch (error) {
    source.close();
    throw error;
  }
}

/** Opens a source, and closes it after the work. */
export async function withSource<Source extends { close(): void }, Result>(
  open: () => Promise<Source>,
  work: (source: Source) => Promise<Result>,
): Promise<Result> {
  const source = await open();
  try {
    return await work(source);
  } finally {
    source.close();
  }
}

/**
 * Throws a RangeError `ERR_OUT_OF_RANGE` for plain weights in place of quantized ones: the `config.json` next to them
 * would be of the old ones. A folder gets both.
 */
function requireOtherFile(
  target: string,
  { path, files }: Pick<CheckpointSource, 'path' | 'files'>,
): void {
  // Bytes, Blobs and readers have no path.
  if (files.length === 0) return;
  const stats = statSync(target, { bigint: true, throwIfNoEntry: false });
  if (stats === undefined || identityOf(stats) !== identityOf(statSync(path, { bigint: true })))
    return;
  const expected = 'another file than the source, or its folder, whose config.json is written, too';
  throw argumentRangeError('target', expected, target);
}

/** The facts of one checkpoint, known before the first write. */
export function rewriteInfo<Info extends SelectableInfo>(
  { dropped, overlaps, report }: SelectedTensors<Info>,
  { unrecorded, conflicts }: RewrittenMetadata,
  { files, skipped }: SidecarFiles,
  configMismatches: readonly ConfigMismatch[],
  { joined }: Pick<CheckpointSource, 'joined'>,
): RewriteInfo {
  const { overflowed, ...known } = report;
  const copied = files.map(({ name }) => name);
  const { excluded = report.excluded } = joined ?? {};
  const ofSource = { ...known, excluded };
  return {
    ...ofSource,
    dropped,
    unrecorded,
    overlaps,
    conflicts,
    copied,
    skipped,
    configMismatches,
  };
}

/** The found files, with those that the source brings in their place. */
function withGenerated(
  found: SidecarFiles,
  { generated = [] }: Pick<CheckpointSource, 'generated'>,
): SidecarFiles {
  const names = new Set(generated.map(({ name }) => name));
  return { ...found, files: [...found.files.filter(({ name }) => !names.has(name)), ...generated] };
}

/** The files to write next to the weights: with configurations of dequantized or cast ones. */
export function sidecarsOf(
  found: SidecarFiles,
  source: CheckpointSource,
  folder: string,
  weights: CastWeights & DequantizedWeights,
): { readonly others: SidecarFiles; readonly mismatches: readonly ConfigMismatch[] } {
  if (weights.selection.dequantize === undefined) return castFiles(found, source, folder, weights);
  const others = dequantizedFiles(found, source, weights);
  // Configurations about quantization alone are deleted.
  const written = [...others.files, ...others.obsolete.map((name) => ({ name }))];
  return { others, mismatches: quantizedConfigsIn(folder, written, weights) };
}
