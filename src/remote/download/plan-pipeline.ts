/** Plans downloads of Diffusers pipelines: their models, the files next to these, and `model_index.json`. */

import { PIPELINE_FILE } from '../../file/shards/file-names.js';
import {
  checkPipelineByteLength,
  chooseComponent,
  componentsAmong,
  filesByFolder,
} from '../../file/shards/pipeline-files.js';
import { hasWeightsName } from '../../file/shards/shard-paths.js';
import { componentsIn } from '../../file/source/pipeline.js';
import { emptyReport } from '../../write/selection/selection-report.js';
import { listedIn } from '../choose-files.js';
import type { RepositoryEntry } from '../hub-repository.js';
import type { DownloadItem, DownloadItems, ModelItems } from './download-item.js';
import { chosenModel, indexBytesOf, otherFiles, type PlaceOf } from './model-files.js';
import { indexOf, tensorsAmong, weightsOf } from './plan-whole.js';
import { knownFile } from './receive.js';
import { type SourceFile, type SourceFiles, splitPath } from './source-files.js';

/**
 * Plans the download of the pipeline in the source's folder: the weights that `openPipeline` opens, and the files
 * without weights in the folders of these models, in those that `model_index.json` names, and next to it.
 *
 * @throws As `planWhole`; SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND` for a variant that no folder has;
 *   FormatError `SAFETENSORS_INVALID_PIPELINE`
 */
export async function planPipeline(
  source: SourceFiles,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<DownloadItems> {
  const { hub, path, variant } = source;
  const begin = hub?.prefix.length ?? 0;
  const entries = (await source.listAll(signal)) ?? [];
  const named = entries.map((entry) => ({ name: entry.path.slice(begin) }));
  const { file, components } = await readPipelineFile(source, placeOf, signal);
  const chosen = componentsAmong(filesByFolder(named), components, variant, path);
  const models: ModelItems[] = [];
  const weights: SourceFile[] = [];
  const foreign: string[] = [];
  for (const component of chosen) {
    const prefix = `${component.name}/`;
    const isThere = listedIn(component.files);
    const decision = chooseComponent(component);
    const model = await chosenModel(source, prefix, decision, isThere, placeOf, signal);
    if (!('file' in model)) {
      const isEmpty = model.kind !== 'missing-shards' && model.isEmpty;
      if (!isEmpty) throw model.errorAt((name) => `${path}/${prefix}${name}`);
      const names = component.files.filter(hasWeightsName);
      foreign.push(...names.map((name) => prefix + name));
      continue;
    }
    const ofModel = await weightsOf(source, model, placeOf, signal);
    models.push({ prefix, weights: ofModel, index: indexOf(model), obsolete: [] });
    weights.push(...ofModel);
  }
  const names = [...components, ...chosen.map(({ name }) => name)];
  const folders = new Set(['', ...names.map((name) => `${name}/`)]);
  const siblings = entries.filter((entry) => isBeside(entry, begin, folders));
  const { others, skipped } = await otherFiles(source, placeOf, signal, siblings);
  return {
    commit: hub?.commit ?? null,
    models,
    others: [...others, file],
    isAddition: false,
    conflicts: [],
    totalSize: null,
    configMismatches: [],
    skipped: [...skipped, ...foreign],
    report: emptyReport(),
    tensorsIn: tensorsAmong(weights, placeOf),
  };
}

/** Whether an entry is a file in one of the folders. */
function isBeside({ path }: RepositoryEntry, begin: number, folders: ReadonlySet<string>): boolean {
  const name = path.slice(begin);
  return name !== PIPELINE_FILE && !name.startsWith('.') && folders.has(splitPath(name)[0]);
}

/** `model_index.json`, which is fetched now, and the folders that it names. */
async function readPipelineFile(
  source: SourceFiles,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<{ readonly file: DownloadItem; readonly components: readonly string[] }> {
  const found = await source.find(PIPELINE_FILE, signal);
  const { path } = found.file;
  checkPipelineByteLength(found.byteLength, path);
  const bytes = await indexBytesOf(found, placeOf(found), signal);
  const { name, hash, version } = found;
  const components = componentsIn(new TextDecoder().decode(bytes), path);
  return { file: knownFile({ name, hash, version }, bytes), components };
}
