/** Opens pipelines of diffusers in repositories on the Hub. */

import {
  argumentRangeError,
  type OptionNames,
  requireBoolean,
  requireOptions,
} from '../errors/arguments.js';
import { PIPELINE_FILE } from '../file/shards/file-names.js';
import { isOfFile } from '../file/shards/file-problems.js';
import {
  type Component,
  checkPipelineByteLength,
  chooseComponent,
  componentsAmong,
  filesByFolder,
  MAX_PIPELINE_FILE_BYTE_LENGTH,
  noPipeline,
} from '../file/shards/pipeline-files.js';
import { componentsIn, Pipeline, type PipelineOptions } from '../file/source/pipeline.js';
import { ofEach, withScope } from '../work/scope.js';
import { RemoteCheckpoint } from './checkpoint.js';
import { chosenSource, driveDecision, indexReader, listedIn } from './choose-files.js';
import type { FoundFile } from './found-file.js';
import { filesBelow, namesAmong, remoteFolder } from './hub-source.js';
import {
  REMOTE_OPTIONS,
  type RemoteOptions,
  type RemoteRuntime,
  requireRemoteOptions,
} from './open.js';
import { RemoteShards } from './remote-shards.js';
import type { Repository } from './repository.js';
import { addressOf, asSource, openRepository } from './source.js';

/** Models opened at a time, each by one request. */
const MODELS_AT_ONCE = 8;

/** A pipeline in a repository on the Hub, opened by `openPipeline`. */
export type RemotePipeline = Pipeline<RemoteCheckpoint>;

/** Options of `openPipeline`. */
export interface RemotePipelineOptions extends RemoteOptions, PipelineOptions {}

const REMOTE_PIPELINE_OPTIONS: OptionNames<RemotePipelineOptions> = {
  ...REMOTE_OPTIONS,
  skipFailed: true,
};

/** Opens the models of a pipeline: one list of files, its `model_index.json`, and the start of each model. */
export async function openRemotePipelineIn(
  runtime: RemoteRuntime,
  source: string | URL,
  given: RemotePipelineOptions,
): Promise<RemotePipeline> {
  requireOptions(given, REMOTE_PIPELINE_OPTIONS);
  const { skipFailed = false, ...options } = given;
  requireBoolean('skipFailed', skipFailed);
  const limits = requireRemoteOptions(runtime, options);
  const { maxHeaderByteLength } = options;
  const { hubSettings } = runtime;
  const { hub } = addressOf(source, options, hubSettings);
  if (hub === null || hub.isFile) {
    const expected = 'a repository on the Hub, or a folder of one, with a pipeline';
    throw argumentRangeError('source', expected, String(source).replace(/[?#].*/s, ''));
  }
  return await withScope([options.signal], async ({ signal }) => {
    const { repository, session } = await openRepository(hub, options, hubSettings, signal);
    try {
      const found = await findModels(repository, hub.id.path, options.variant, signal);
      const models = new Map<string, RemoteCheckpoint>();
      const failed = new Map<string, Error>();
      const open = async (component: Component, ends: AbortSignal): Promise<void> => {
        const { name } = component;
        try {
          const source = await componentSource(repository, hub.id.path, component, ends);
          const model = { ...asSource(session, source), close: () => {} };
          const shards = await RemoteShards.open(model, { maxHeaderByteLength }, ends);
          models.set(name, RemoteCheckpoint.of(shards, limits));
        } catch (error) {
          if (!skipFailed || !isOfFile(error)) throw error;
          failed.set(name, session.withoutSecrets(error) as Error);
        }
      };
      await ofEach(found.models, MODELS_AT_ONCE, open, signal);
      const path = repository.pageOf(hub.id.path);
      return Pipeline.of({
        path,
        models: inOrder(models),
        missing: found.missing,
        failed: inOrder(failed),
        end: () => session.close(),
      });
    } catch (error) {
      session.close();
      throw session.withoutSecrets(error);
    }
  });
}

/** Models answer in any order. */
function inOrder<Value>(byFolder: ReadonlyMap<string, Value>): Map<string, Value> {
  return new Map([...byFolder].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** The models of a pipeline, and the folders that are missing. */
interface FoundModels {
  readonly models: readonly Component[];
  readonly missing: readonly string[];
}

/**
 * Finds the models of a pipeline in a folder of a repository.
 *
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND` for a folder without a pipeline, or without files of the
 *   variant; FormatError `SAFETENSORS_INVALID_PIPELINE`; RemoteError
 */
async function findModels(
  repository: Repository,
  folder: string,
  variant: string | undefined,
  signal: AbortSignal,
): Promise<FoundModels> {
  const prefix = folder === '' ? '' : `${folder}/`;
  const path = repository.pageOf(folder);
  const entries = await repository.list(folder, signal, true);
  const here = namesAmong(entries, folder);
  if (!here.files.includes(PIPELINE_FILE)) throw noPipeline(path);
  const file = repository.file(prefix + PIPELINE_FILE);
  const { bytes, fileByteLength } = await file.readStart(MAX_PIPELINE_FILE_BYTE_LENGTH, signal);
  checkPipelineByteLength(fileByteLength, file.path);
  const named = componentsIn(new TextDecoder().decode(bytes), file.path);
  const byFolder = filesByFolder(filesBelow(entries, prefix));
  return {
    models: componentsAmong(byFolder, named, variant, path),
    missing: named.filter((name) => !here.folders.includes(name)),
  };
}

/** Finds the files of a model of a pipeline. Throws as `hubSource`. */
async function componentSource(
  repository: Repository,
  path: string,
  component: Component,
  signal: AbortSignal,
): Promise<FoundFile> {
  const below = path === '' ? component.name : `${path}/${component.name}`;
  const page = repository.pageOf(below);
  const folder = remoteFolder(repository, `${below}/`, page, component);
  const read = indexReader(folder.file, { signal });
  const decision = chooseComponent(component);
  const chosen = await driveDecision(decision, read, listedIn(component.files));
  if ('model' in chosen) return chosenSource(chosen, folder);
  throw chosen.errorAt((name) => (name === '' ? page : repository.file(`${below}/${name}`).path));
}
