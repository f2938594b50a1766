/** Opens pipelines of diffusers in repositories on the Hub. */

import { argumentRangeError } from '../errors/arguments.js';
import { SafetensorsError } from '../errors/errors.js';
import { isOfVariant, waysToOpen } from '../file/shards/file-choice.js';
import { PIPELINE_FILE } from '../file/shards/file-names.js';
import {
  componentsIn,
  MAX_COMPONENTS,
  MAX_PIPELINE_FILE_BYTE_LENGTH,
  Pipeline,
} from '../file/source/pipeline.js';
import { RemoteCheckpoint } from './checkpoint.js';
import { HubRepository, type RepositoryEntry } from './hub-repository.js';
import { chooseAmong, namesAmong, sourceOfPath } from './hub-source.js';
import { type RemoteOptions, type RemoteRuntime, requireRemoteOptions } from './open.js';
import { RemoteShards } from './remote-shards.js';
import { ofEach, withScope } from './scope.js';
import type { Session } from './session.js';
import { asSource, sourceSession } from './source.js';

/** Models opened at a time, each by one request. */
const MODELS_AT_ONCE = 8;

/** A pipeline in a repository on the Hub, opened by `openRemotePipeline`. */
export type RemotePipeline = Pipeline<RemoteCheckpoint>;

/** Opens the models of a pipeline: one list of files, its `model_index.json`, and the start of each model. */
export async function openRemotePipelineIn(
  runtime: RemoteRuntime,
  source: string | URL,
  options: RemoteOptions,
): Promise<RemotePipeline> {
  const limits = requireRemoteOptions(runtime, options);
  const { maxHeaderByteLength } = options;
  const { address, session } = sourceSession(source, options, runtime.hubSettings);
  try {
    const { hub } = address;
    if (hub === null || hub.isFile) {
      const expected = 'a repository on the Hub, or a folder of one, with a pipeline';
      throw argumentRangeError('source', expected, String(source).replace(/[?#].*/s, ''));
    }
    return await withScope([options.signal], async ({ signal }) => {
      const repository = new HubRepository(session, hub.endpoint, hub.id);
      const found = await findModels(repository, hub.id.path, options.variant, signal);
      const open = async (path: string, ends: AbortSignal): Promise<RemoteCheckpoint> => {
        const model = { ...asSource(session, sourceOfPath(repository, path)), close: () => {} };
        const shards = await RemoteShards.open(model, maxHeaderByteLength, ends);
        return RemoteCheckpoint.of(shards, limits);
      };
      const opened = await ofEach([...found.files.values()], MODELS_AT_ONCE, open, signal);
      const folders = [...found.files.keys()];
      const models = new Map(opened.map((model, i) => [folders[i] as string, model]));
      const path = repository.pageOf(hub.id.path);
      return Pipeline.of({ path, models, missing: found.missing, end: endOf(session) });
    });
  } catch (error) {
    session.close();
    throw session.withoutSecrets(error);
  }
}

function endOf(session: Session): () => void {
  return () => session.close();
}

/** The files or indexes of a pipeline's models, by their folders, and the folders that are missing. */
export interface FoundModels {
  readonly files: ReadonlyMap<string, string>;
  readonly missing: readonly string[];
}

/**
 * Finds the models of a pipeline in a folder of a repository.
 *
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND` for a folder without a pipeline, or without files of the
 *   variant; FormatError `SAFETENSORS_INVALID_PIPELINE`; RemoteError
 */
async function findModels(
  repository: HubRepository,
  folder: string,
  variant: string | undefined,
  signal: AbortSignal,
): Promise<FoundModels> {
  const prefix = folder === '' ? '' : `${folder}/`;
  const path = repository.pageOf(folder);
  const entries = await repository.list(folder, signal, true);
  const here = namesAmong(entries, folder);
  if (!here.files.includes(PIPELINE_FILE)) {
    const message = `expected a pipeline, found no ${PIPELINE_FILE}`;
    throw new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, { path });
  }
  const file = repository.file(prefix + PIPELINE_FILE);
  const { bytes } = await file.readStart(MAX_PIPELINE_FILE_BYTE_LENGTH, signal);
  const named = componentsIn(new TextDecoder().decode(bytes), file.path);
  const files = new Map<string, string>();
  let hasVariant = variant === undefined;
  for (const name of here.folders.slice(0, MAX_COMPONENTS).sort()) {
    const below = namesAmong(belowOf(entries, prefix + name), prefix + name);
    const isOf = variant !== undefined && below.files.some((one) => isOfVariant(one, variant));
    hasVariant ||= isOf;
    const [way] = isOf ? [{ variant }] : waysToOpen(below.files);
    if (way === undefined) continue;
    const at = repository.pageOf(prefix + name);
    const chosen = 'file' in way ? way.file : chooseAmong(below, at, way.variant);
    files.set(name, `${prefix}${name}/${chosen}`);
  }
  if (!hasVariant) {
    const message = `expected models of the variant ${variant}, found none in the pipeline`;
    throw new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, { path });
  }
  return { files, missing: named.filter((name) => !here.folders.includes(name)) };
}

function belowOf(entries: readonly RepositoryEntry[], folder: string): RepositoryEntry[] {
  return entries.filter(({ path }) => path.startsWith(`${folder}/`));
}
