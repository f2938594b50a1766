/** Rewrites the models of a pipeline, each into its folder, with all other files. */

import { basename, join } from 'node:path';
import { namingOf } from '../../file/shards/file-choice.js';
import { PIPELINE_FILE } from '../../file/shards/file-names.js';
import type { TransferOptions } from '../../work/transfer.js';
import { runAsync } from '../../work/work.js';
import { requireMakeableFolder } from '../replacement/create-directories.js';
import { requireReplacedNotInUse } from '../replacement/in-use.js';
import { innerPath, makeInnerFolders } from '../replacement/inner-paths.js';
import {
  OwnFiles,
  overwritePlan,
  type ReplacedFile,
  requireOverwrite,
} from '../replacement/replaced-files.js';
import type { SelectableInfo } from '../selection/options.js';
import type { SelectionReport } from '../selection/selection-report.js';
import {
  type FolderContents,
  indexNameOf,
  NO_CHECKPOINT,
  withoutStaying,
  writeFolders,
  writtenByteLength,
} from './execute-plan.js';
import type { StaleFiles } from './folder-replacement.js';
import { layOutCheckpoint } from './layout.js';
import { inLockedFolder, inLockedSubfolders } from './locked-folder.js';
import type { OldFiles } from './old-files.js';
import { oldFilesBefore, planCheckpoint } from './plan.js';
import {
  type RewriteInfo,
  type RewriteOptions,
  type RewritePlan,
  type Rewritten,
  rewriteInfo,
  sidecarsOf,
  withSource,
} from './rewrite.js';
import { selectTensors } from './selected-tensors.js';
import type { SidecarFile, SidecarFiles } from './sidecar-files.js';
import type { CheckpointSource } from './source.js';

/** A pass over bytes of a source before the first write. */
export interface SourceCheck {
  /** How many it reads. */
  readonly byteLength: number;
  run(options: TransferOptions): Promise<void>;
}

/** An open pipeline. */
export interface PipelineSource<Info extends SelectableInfo = SelectableInfo> {
  /** Paths of files that it reads besides those of its models. */
  readonly files: readonly string[];
  /** Its models by their folders. */
  readonly models: ReadonlyMap<string, CheckpointSource<Info>>;
  /** The files without weights, by their paths in the pipeline; none when it is the folder `target`. */
  otherFiles(target: string): SidecarFiles;
  /** Compares bytes that are about to be written with checksums. */
  readonly check?: SourceCheck | undefined;
  /** Closes all files. May be called again. */
  close(): void;
}

/** A pipeline that can be opened, and the folders of its models. */
export interface ListedPipeline<Info extends SelectableInfo = SelectableInfo> {
  readonly folders: readonly string[];
  /** Opens just these models. */
  open(): Promise<PipelineSource<Info>>;
}

/** What one folder gets. `prefix` is its name with a slash at the end; empty for the pipeline's own. */
interface Part extends FolderContents {
  readonly prefix: string;
  readonly otherFiles: readonly SidecarFile[];
  readonly obsolete: readonly string[];
}

/** A model, and what is known before the first write. */
interface PlannedModel {
  readonly part: Part;
  readonly facts: RewriteInfo;
  readonly report: SelectionReport;
}

/**
 * Writes a pipeline into a folder: each model into the folder of its name, under the names of its files, and all other
 * files. Every model has its old files until all new ones are complete; then each gets its place in one step, and
 * `model_index.json` is the last. In the result names of tensors and files begin with the folder.
 *
 * Locks the target and the folder of every model before it opens one, as the source may be the same pipeline and
 * another process may be saving into one of its models. `list` is called within the lock of the target.
 *
 * @throws As `rewriteFolder`
 */
export async function rewritePipeline<Info extends SelectableInfo>(
  target: string | URL,
  list: (folder: string) => ListedPipeline<Info>,
  options: RewriteOptions<Info>,
): Promise<Rewritten | RewritePlan> {
  return await inLockedFolder(target, options, async (folder) => {
    const listed = list(folder);
    const work = (made: string[]): Promise<Rewritten | RewritePlan> =>
      withSource(
        () => listed.open(),
        (source) => rewriteOpen(source, folder, made, options),
      );
    if (options.dryRun === true) return await work([]);
    const prefixes = listed.folders.map((name) => `${name}/`);
    return await inLockedSubfolders(folder, prefixes, options, work);
  });
}

/** Writes open models into locked folders, or plans it. Adds to `made` the folders that it makes. */
async function rewriteOpen<Info extends SelectableInfo>(
  source: PipelineSource<Info>,
  folder: string,
  made: string[],
  options: RewriteOptions<Info>,
): Promise<Rewritten | RewritePlan> {
  const { files, skipped } = source.otherFiles(folder);
  const models: PlannedModel[] = [];
  for (const [name, model] of source.models) {
    models.push(await planModel(model, folder, `${name}/`, files, options));
  }
  const [own, mark] = ownParts(folder, models, files);
  const parts = [...models.map(({ part }) => part), own, mark];
  const path = join(folder, PIPELINE_FILE);
  const totalSize = parts.reduce((sum, { checkpoint }) => sum + checkpoint.totalSize, 0);
  const copied = parts.flatMap(({ prefix, otherFiles }) => below(prefix, otherFiles));
  const result = { path, index: null, totalSize, ...factsOf(models), copied, skipped };
  const sources = new OwnFiles(
    [...source.models.values()].flatMap(({ files: ofModel }) => ofModel).concat(source.files),
  );
  if (options.dryRun === true) {
    const plan = planOf(parts, folder, sources);
    return { ...result, ...plan, ...overwritePlan(plan.replaced, options) };
  }
  const findOld = (): OldFiles[] => {
    const found = parts.map((part) =>
      oldFilesBefore(part.folder, part.checkpoint, filesOf(part), sources),
    );
    const all = found.map((files) => files.replaced);
    requireOverwrite(belowAll(parts, all), folder, options);
    return found;
  };
  const old = findOld();
  const replaced = old.map((files) => files.replaced);
  for (const [i, part] of parts.entries()) requireReplacedNotInUse(part.folder, old[i] as OldFiles);
  const checked = source.check?.byteLength ?? 0;
  const totalBytes = checked + writtenByteLength(parts);
  const progress = (before: number): TransferOptions => ({
    signal: options.signal,
    onProgress: ({ bytes }) => options.onProgress?.({ bytes: before + bytes, totalBytes }),
  });
  await source.check?.run(progress(0));
  for (const { name } of own.otherFiles) makeInnerFolders(folder, name, made);
  const closeSources = (): void => source.close();
  const stale = await writeFolders(
    parts,
    { ...options, ...progress(checked) },
    { closeSources, check: findOld },
  );
  const overflowed = new Map(
    models.flatMap(({ part, report }) =>
      Array.from(report.overflowed, ([name, count]) => [part.prefix + name, count] as const),
    ),
  );
  const written = parts.flatMap(({ prefix, checkpoint }) => below(prefix, checkpoint.files));
  const [deleted, failedDeletions] = (['deleted', 'failedDeletions'] as const).map((kind) =>
    parts.flatMap(({ prefix }, i) => stale[i]?.[kind].map((name) => prefix + name) ?? []),
  ) as [string[], string[]];
  const gone = replaced.map((files, i) => withoutStaying(files, stale[i] as StaleFiles));
  const after = { deleted, failedDeletions, replaced: belowAll(parts, gone) };
  return { ...result, files: written, ...after, overflowed };
}

/** The files of a part without weights, and those to delete. */
function filesOf({ otherFiles, obsolete }: Part): Pick<SidecarFiles, 'files' | 'obsolete'> {
  return { files: otherFiles, obsolete };
}

/** Replaced files of each part, by their paths in the pipeline. */
function belowAll(
  parts: readonly Part[],
  replaced: readonly (readonly ReplacedFile[])[],
): ReplacedFile[] {
  return parts.flatMap(({ prefix }, i) =>
    (replaced[i] ?? []).map((file) => ({ ...file, name: prefix + file.name })),
  );
}

function below(prefix: string, files: readonly { readonly name: string }[]): string[] {
  return files.map(({ name }) => prefix + name);
}

async function planModel<Info extends SelectableInfo>(
  model: CheckpointSource<Info>,
  folder: string,
  prefix: string,
  all: readonly SidecarFile[],
  options: RewriteOptions<Info>,
): Promise<PlannedModel> {
  const { selection, signal } = options;
  const files = all
    .filter(({ name }) => name.startsWith(prefix))
    .map((file) => ({ ...file, name: file.name.slice(prefix.length) }));
  const found = { files, skipped: [], obsolete: [] };
  const selected = await runAsync(selectTensors(model, options), signal);
  const { report } = selected;
  const weights = { selection, ...selected };
  const { others, mismatches } = sidecarsOf(found, model, join(folder, prefix), weights);
  const naming = { ...options, ...namingOf(basename(model.path)) };
  const layout = layOutCheckpoint(selected.table, naming, selected.metadataOf);
  const checkpoint = await runAsync(layout, signal);
  const facts = rewriteInfo(selected, checkpoint.metadata, others, mismatches, model);
  const { files: otherFiles, obsolete } = others;
  const part = { folder: join(folder, prefix), prefix, checkpoint, otherFiles, obsolete };
  return { part, facts, report };
}

/**
 * The pipeline's own files, and those in folders without a model; then the file that makes it one, by itself: within a
 * part files with free names get their places first.
 */
function ownParts(
  folder: string,
  models: readonly PlannedModel[],
  all: readonly SidecarFile[],
): [own: Part, mark: Part] {
  const prefixes = models.map(({ part }) => part.prefix);
  const own = all.filter(({ name }) => !prefixes.some((prefix) => name.startsWith(prefix)));
  const isMark = ({ name }: SidecarFile): boolean => name === PIPELINE_FILE;
  const part = { folder, prefix: '', checkpoint: NO_CHECKPOINT, obsolete: [] };
  return [
    { ...part, otherFiles: own.filter((file) => !isMark(file)) },
    { ...part, otherFiles: own.filter(isMark) },
  ];
}

/** The facts of all models together. */
function factsOf(models: readonly PlannedModel[]): Omit<RewriteInfo, 'copied' | 'skipped'> {
  type Names = 'excluded' | 'cast' | 'dequantized' | 'notCast' | 'duplicates';
  const named = (key: Names): string[] =>
    models.flatMap(({ part, facts }) => facts[key].map((name) => part.prefix + name));
  return {
    excluded: named('excluded'),
    cast: named('cast'),
    dequantized: named('dequantized'),
    notCast: named('notCast'),
    // Tensors of safetensors share no bytes.
    ...{ dropped: new Map(), unrecorded: [], overlaps: [] },
    configMismatches: models.flatMap(({ part, facts }) =>
      facts.configMismatches.map((one) => ({ ...one, name: part.prefix + one.name })),
    ),
    conflicts: [...new Set(models.flatMap(({ facts }) => facts.conflicts))],
    duplicates: named('duplicates'),
  };
}

/** The files that would be written, and those that would be deleted, by their paths in the folder. */
function planOf(
  parts: readonly Part[],
  folder: string,
  own: OwnFiles,
): Pick<RewritePlan, 'files' | 'deleted' | 'replaced'> {
  const plans = parts.map(({ prefix, checkpoint, otherFiles, obsolete, ...part }) => {
    for (const name of below(prefix, otherFiles)) innerPath(folder, name);
    innerPath(folder, `${prefix}${indexNameOf(checkpoint) ?? 'any'}`);
    requireMakeableFolder(part.folder);
    const files = { files: otherFiles, skipped: [], obsolete };
    const {
      files: planned,
      deleted,
      replaced,
    } = planCheckpoint(part.folder, checkpoint, files, own);
    return {
      files: planned.map((file) => ({ ...file, name: prefix + file.name })),
      deleted: deleted.map((name) => prefix + name),
      replaced: replaced.map((file) => ({ ...file, name: prefix + file.name })),
    };
  });
  return {
    files: plans.flatMap(({ files }) => files),
    deleted: plans.flatMap(({ deleted }) => deleted),
    replaced: plans.flatMap(({ replaced }) => replaced),
  };
}
