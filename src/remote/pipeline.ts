/** Opens pipelines of diffusers in repositories on the Hub. */

import {
  argumentRangeError,
  type OptionNames,
  requireBoolean,
  requireOptions,
} from '../errors/arguments.js';
import { SafetensorsError } from '../errors/errors.js';
import { PIPELINE_FILE } from '../file/shards/file-names.js';
import { chooseModels } from '../file/shards/pipeline-files.js';
import { isOfFile } from '../file/shards/verification-error.js';
import {
  componentsIn,
  MAX_PIPELINE_FILE_BYTE_LENGTH,
  Pipeline,
  type PipelineOptions,
} from '../file/source/pipeline.js';
import { ofEach, withScope } from '../work/scope.js';
import { RemoteCheckpoint } from './checkpoint.js';
import { HubRepository } from './hub-repository.js';
import { namesAmong, sourceOfPath } from './hub-source.js';
import {
  REMOTE_OPTIONS,
  type RemoteOptions,
  type RemoteRuntime,
  requireRemoteOptions,
} from './open.js';
import { RemoteShards } from './remote-shards.js';
import type { Session } from './session.js';
import { asSource, sourceSession } from './source.js';

/** Models opened at a time, each by one request. */
const MODELS_AT_ONCE = 8;

/** A pipeline in a repository on the Hub, opened by `openRemotePipeline`. */
export type RemotePipeline = Pipeline<RemoteCheckpoint>;

/** Options of `openRemotePipeline`. */
export interface RemotePipelineOptions extends RemoteOptions, PipelineOptions {}

const REMOTE_PIPELINE_OPTIONS: OptionNames<RemotePipelineOptions> = {
  ...REMOTE_OPTIONS,
  toVerify: true,
};

/** Opens the models of a pipeline: one list of files, its `model_index.json`, and the start of each model. */
export async function openRemotePipelineIn(
  runtime: RemoteRuntime,
  source: string | URL,
  given: RemotePipelineOptions,
): Promise<RemotePipeline> {
  requireOptions(given, REMOTE_PIPELINE_OPTIONS);
  const { toVerify = false, ...options } = given;
  requireBoolean('toVerify', toVerify);
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
      const models = new Map<string, RemoteCheckpoint>();
      const failed = new Map<string, Error>();
      const open = async ([folder, path]: [string, string], ends: AbortSignal): Promise<void> => {
        const model = { ...asSource(session, sourceOfPath(repository, path)), close: () => {} };
        try {
          const shards = await RemoteShards.open(model, { maxHeaderByteLength }, ends);
          models.set(folder, RemoteCheckpoint.of(shards, limits));
        } catch (error) {
          if (!toVerify || !isOfFile(error)) throw error;
          failed.set(folder, session.withoutSecrets(error) as Error);
        }
      };
      await ofEach(found.files, MODELS_AT_ONCE, open, signal);
      const path = repository.pageOf(hub.id.path);
      return Pipeline.of({
        path,
        models: inOrder(models),
        missing: found.missing,
        failed: inOrder(failed),
        end: endOf(session),
      });
    });
  } catch (error) {
    session.close();
    throw session.withoutSecrets(error);
  }
}

/** Models answer in any order. */
function inOrder<Value>(byFolder: ReadonlyMap<string, Value>): Map<string, Value> {
  return new Map([...byFolder].sort(([a], [b]) => (a < b ? -1 : 1)));
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
  const below = entries.flatMap(({ path, isFolder }) =>
    isFolder || !path.startsWith(prefix) ? [] : [{ name: path.slice(prefix.length) }],
  );
  const chosen = chooseModels(below, variant, path);
  const files = new Map(Array.from(chosen, ([name, file]) => [name, prefix + file]));
  return { files, missing: named.filter((name) => !here.folders.includes(name)) };
}
