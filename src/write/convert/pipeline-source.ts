/** Opens Diffusers pipelines to be rewritten: a folder of models, or a DDUF archive. */

import { existsSync, readdirSync, statSync } from 'node:fs';
import { dirname, isAbsolute, join, relative, resolve, sep } from 'node:path';
import { argumentRangeError } from '../../errors/arguments.js';
import { FileChangedError, quoteName, quoteNames, SafetensorsError } from '../../errors/errors.js';
import { insideOf, rejectLink } from '../../file/checkpoint/find-files.js';
import { findFolder, isCachedId, modelFiles } from '../../file/checkpoint/find-source.js';
import { openAllFound } from '../../file/checkpoint/open.js';
import { findComponent, findModels } from '../../file/checkpoint/open-pipeline.js';
import { modelsOf, namesIn } from '../../file/checkpoint/pipeline.js';
import {
  indexesAmong,
  isConvertibleName,
  isSafetensorsName,
  isTorchIndexName,
} from '../../file/shards/file-choice.js';
import { isDdufName, PIPELINE_FILE } from '../../file/shards/file-names.js';
import { hasModel } from '../../file/shards/model-choice.js';
import { type Component, isComponentName } from '../../file/shards/pipeline-files.js';
import { hasWeightsExtension } from '../../file/shards/shard-paths.js';
import type { TensorInfo } from '../../file/source/tensor-info.js';
import { verifyEntries } from '../../foreign/checksums.js';
import {
  openModel as openArchivedModel,
  openWhole,
  type ReadModels,
  readModels,
} from '../../foreign/dduf/models.js';
import type { ArchiveEntry } from '../../foreign/zip/archive.js';
import type { Dtype } from '../../header/dtype.js';
import { retryHere } from '../../platform/io/dropped-files.js';
import { systemRealpath } from '../../platform/io/file-calls.js';
import type { LeasableStorage } from '../../tensor/storage/storage.js';
import { totalByteLength } from '../../work/transfer.js';
import { runAsync, runSync } from '../../work/work.js';
import type {
  ListedPipeline,
  PipelineSource,
  SourceCheck,
} from '../checkpoint/rewrite-pipeline.js';
import { safetensorsSource } from '../checkpoint/safetensors-source.js';
import {
  findOtherFiles,
  isOtherName,
  MAX_OTHER_BYTE_LENGTH,
  type SidecarFile,
  type SidecarFiles,
} from '../checkpoint/sidecar-files.js';
import type { CheckpointSource } from '../checkpoint/source.js';

/** A pipeline that was found. */
export interface FoundPipeline {
  readonly path: string;
  readonly isArchive: boolean;
}

/** How the models are opened. */
interface PipelineOpening {
  readonly maxIndexByteLength: number | undefined;
  /** The files of a variant, in folders that have it. */
  readonly variant: string | undefined;
  /** Whether to compare bytes with the digests and checksums that the files declare. */
  readonly verify: boolean;
  /** The dtype of dequantized weights. */
  readonly dequantize: Dtype | undefined;
  readonly signal: AbortSignal | undefined;
}

/**
 * Finds the pipeline at a path, or in the Hub cache: an archive by its name, and a folder that has `model_index.json`,
 * models, and no checkpoint of its own. Undefined for anything else. Reads names alone.
 */
export function findPipeline(source: string): FoundPipeline | undefined {
  const stats = statSync(source, { throwIfNoEntry: false });
  if (stats?.isFile() === true || isDdufName(source)) {
    return isDdufName(source) ? { path: source, isArchive: true } : undefined;
  }
  if (stats === undefined && !runSync(isCachedId(source))) return undefined;
  const path = runSync(findFolder(source, undefined));
  const names = runSync(namesIn(path));
  if (!names.includes(PIPELINE_FILE) || hasModel(names)) return undefined;
  return runSync(modelsOf(path)).length === 0 ? undefined : { path, isArchive: false };
}

/**
 * Lists the models of a pipeline that is written into the folder `target`.
 *
 * @throws As `openPipeline`, but for the files of weights; RangeError `ERR_OUT_OF_RANGE` for a target
 *   within the pipeline. To open it: SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND` for a folder with weights of
 *   torch alone; FileChangedError; `signal.reason`
 */
export function listPipeline(
  { path, isArchive }: FoundPipeline,
  target: string,
  opening: PipelineOpening,
): ListedPipeline<TensorInfo> {
  if (isArchive) {
    const read = readModels(path, opening.variant, opening.maxIndexByteLength);
    const folders = read.archive.models.map(({ name }) => name);
    return { folders, open: () => openArchived(read, opening) };
  }
  requireOutside(path, target);
  const folders = safetensorsModels(path, opening.variant).map(({ name }) => name);
  return { folders, open: () => openFolder(path, folders, opening) };
}

/** Throws a RangeError `ERR_OUT_OF_RANGE` for a target within a pipeline, which would be copied into itself. */
function requireOutside(folder: string, target: string): void {
  const whole = resolve(target);
  // A dry run does not make the folder.
  let made = whole;
  while (!existsSync(made) && dirname(made) !== made) made = dirname(made);
  const realpath = systemRealpath();
  const inner = relative(realpath(folder), join(realpath(made), relative(made, whole)));
  // On Windows the path of another drive is absolute.
  if (inner === '' || inner.split(sep)[0] === '..' || isAbsolute(inner)) return;
  const expected = 'the folder of the pipeline itself, or one outside of it';
  throw argumentRangeError('target', expected, target);
}

/** Opens models one after the other; closes all when one cannot be opened. */
async function openEach<Place>(
  places: Iterable<readonly [folder: string, place: Place]>,
  open: (place: Place) => Promise<CheckpointSource<TensorInfo>>,
): Promise<Map<string, CheckpointSource<TensorInfo>>> {
  const models = new Map<string, CheckpointSource<TensorInfo>>();
  try {
    for (const [folder, place] of places) models.set(folder, await open(place));
    return models;
  } catch (error) {
    closeAll(models);
    throw error;
  }
}

/** A folder: its models, and the files next to these and in all other folders directly in it. */
async function openFolder(
  folder: string,
  listed: readonly string[],
  { variant: wanted, maxIndexByteLength, verify, dequantize, signal }: PipelineOpening,
): Promise<PipelineSource<TensorInfo>> {
  const found = safetensorsModels(folder, wanted);
  // The call may have waited for their locks.
  if (found.map(({ name }) => name).join('/') !== listed.join('/')) {
    const message = 'models came into the pipeline, or left it, after they were listed; try again';
    throw new FileChangedError(message, { path: folder });
  }
  requireNoTorch(folder, listed);
  const places = found.map((model) => [model.name, model] as const);
  const models = await openEach(places, async (model) => {
    const found = await runAsync(findComponent(folder, model, { maxIndexByteLength }), signal);
    const opening = openAllFound(modelFiles(found), { storage: 'read' });
    const shards = await runAsync(opening, signal);
    return await safetensorsSource(shards, { verify, dequantize, signal });
  });
  return {
    files: [join(folder, PIPELINE_FILE)],
    models,
    otherFiles: (target) => filesIn(folder, target, listed),
    close: () => closeAll(models),
  };
}

/** The models of a folder, without those that have only weights of other formats. */
function safetensorsModels(folder: string, variant: string | undefined): Component[] {
  const { models } = runSync(findModels(folder, variant));
  return models.filter(
    ({ files }) => files.some(isSafetensorsName) || indexesAmong(files).length > 0,
  );
}

/** Throws for a folder next to the models that has weights of torch or NumPy alone: they would be left behind. */
function requireNoTorch(folder: string, models: readonly string[]): void {
  for (const name of runSync(namesIn(folder)).filter(isComponentName)) {
    if (models.includes(name)) continue;
    const names = runSync(namesIn(join(folder, name)));
    const indexes = names.filter(isTorchIndexName);
    const found =
      indexes.length > 0
        ? indexes
        : names.filter((file) => isConvertibleName(file) && hasWeightsExtension(file));
    const [first] = found;
    if (first === undefined) continue;
    const path = join(folder, name);
    const stem = 'diffusion_pytorch_model';
    const naming = first.startsWith(stem)
      ? `, { filenamePattern: '${stem}{suffix}.safetensors' }`
      : '';
    const message =
      `expected safetensors in each folder with weights, found in ${quoteName(name)} only ${quoteNames(found)}; ` +
      `convert them first: convert(${JSON.stringify(join(path, first))}, ${JSON.stringify(path)}${naming})`;
    throw new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, { path });
  }
}

/**
 * The files without weights in a folder, and in those directly in it. Hidden ones are left out. Weights of folders
 * without a model are skipped.
 */
function filesIn(folder: string, target: string, models: readonly string[]): SidecarFiles {
  const entries = retryHere(() => readdirSync(folder)).filter((name) => !name.startsWith('.'));
  const folders = entries.filter((name) => isFolder(join(folder, name))).sort();
  const isInside = runSync(insideOf(folder));
  const own = findOtherFiles(folder, target);
  const files = [...own.files];
  const skipped = own.skipped.filter((name) => !folders.includes(name));
  for (const name of folders) {
    if (!runSync(isInside(join(folder, name)))) rejectLink(folder, name);
    const found = findOtherFiles(join(folder, name), join(target, name));
    files.push(...found.files.map((file) => ({ ...file, name: `${name}/${file.name}` })));
    const weights = models.includes(name)
      ? []
      : runSync(namesIn(join(folder, name))).filter(hasWeightsExtension);
    skipped.push(...[...found.skipped, ...weights].map((below) => `${name}/${below}`));
  }
  return { files, skipped, obsolete: [] };
}

/** An archive: its models, and all other entries. Those with weights that no model has are skipped. */
async function openArchived(
  { archive, indexes }: ReadModels,
  { verify, dequantize, signal }: PipelineOpening,
): Promise<PipelineSource<TensorInfo>> {
  const { path } = archive;
  const storage = await runAsync(openWhole(archive), signal);
  const taken = new Set<string>();
  const open = async (model: Component): Promise<CheckpointSource<TensorInfo>> => {
    const shards = openArchivedModel(archive, model, indexes, { storage: 'read' });
    for (const shard of shards.files.shards) taken.add(shard.path.slice(path.length + 1));
    taken.add(shards.files.path.slice(path.length + 1));
    return await safetensorsSource(shards, { verify, dequantize, signal });
  };
  const places = archive.models.map((model) => [model.name, model] as const);
  const models = await openEach(places, open).catch((error: unknown) => {
    storage.close(false);
    throw error;
  });
  const entries = [...archive.entries.values()];
  const isCopied = ({ name, byteLength }: ArchiveEntry): boolean =>
    isOtherName(name.slice(name.indexOf('/') + 1)) && byteLength <= MAX_OTHER_BYTE_LENGTH;
  const read = entries.filter((entry) => taken.has(entry.name) || isCopied(entry));
  return {
    files: [],
    models,
    otherFiles: () => {
      const others = entries.filter(({ name }) => !taken.has(name));
      const files = others.filter(isCopied).map(({ name, begin, byteLength }): SidecarFile => {
        return { name, path, byteLength, within: { storage, begin } };
      });
      const skipped = others.filter((entry) => !isCopied(entry)).map(({ name }) => name);
      return { files, skipped, obsolete: [] };
    },
    check: verify ? checkOf(storage, read) : undefined,
    close: () => {
      closeAll(models);
      storage.close(false);
    },
  };
}

/** Compares entries with their checksums. */
function checkOf(storage: LeasableStorage, all: readonly ArchiveEntry[]): SourceCheck {
  const entries = all.filter(({ crc32 }) => crc32 !== null);
  return {
    byteLength: totalByteLength(entries),
    run: (options) => verifyEntries(storage, { entries, limits: {} }, options),
  };
}

/** Whether a path is that of a folder; a dangling link is none. */
function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

function closeAll(models: ReadonlyMap<string, CheckpointSource<TensorInfo>>): void {
  for (const model of models.values()) model.close();
}
