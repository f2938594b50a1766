/** Reads index and headers of a remote model, for `parseSafetensorsMetadata`. */

import { absenceIn } from '../../errors/absence.js';
import { RemoteError } from '../../errors/errors.js';
import type { Header } from '../../header/header.js';
import { withScope } from '../../work/scope.js';
import { runAsync } from '../../work/work.js';
import { requireModel } from '../found-file.js';
import { sourceOfPath } from '../hub-source.js';
import { findSource } from '../open.js';
import type { RemoteSettings } from '../receiver.js';
import type { RemoteFile } from '../remote-file.js';
import { fetchSibling, parsedConfig, RemoteShards } from '../remote-shards.js';
import { asSource, openRepository } from '../source.js';
import { requireEndpoint } from '../source-address.js';
import {
  DIFFUSERS_SAFETENSORS_FILE,
  DIFFUSERS_SAFETENSORS_INDEX_FILE,
  DIFFUSERS_WEIGHTS_SUBFOLDERS,
  SAFETENSORS_FILE,
  SAFETENSORS_INDEX_FILE,
} from './file-names.js';
import {
  modelName,
  type ParseSafetensorsMetadataParams,
  type RepositoryParams,
  type SourceParams,
  tokenOf,
} from './params.js';
import {
  headerRecord,
  indexRecord,
  type ReadIndex,
  type ReadModel,
  type ReadShard,
  resultYielding,
  type SafetensorsParseFromRepo,
} from './result.js';

/** Usual files of models; the first that exists is the model. */
const CANONICAL_PATHS: readonly string[] = [SAFETENSORS_FILE, SAFETENSORS_INDEX_FILE];

/** Usual files of diffusers models. */
const DIFFUSERS_PATHS: readonly string[] = [
  ...DIFFUSERS_WEIGHTS_SUBFOLDERS.map((folder) => `${folder}/`),
  '',
].flatMap((prefix) => [
  prefix + DIFFUSERS_SAFETENSORS_FILE,
  prefix + DIFFUSERS_SAFETENSORS_INDEX_FILE,
]);

/** A model whose index, or whose only header, was read. */
interface OpenedModel {
  /** Path of the index or the only file, as in the result. */
  readonly path: string;
  readonly shards: RemoteShards;
}

/** The result describes headers of safetensors. */
const ONLY_SAFETENSORS = { formats: ['safetensors'] } as const;

/** Settings for finding a model. */
interface Finder {
  open(signal: AbortSignal): Promise<OpenedModel>;
  /** The `config.json` with the quantization; undefined where none can exist. */
  config(opening: Promise<OpenedModel>): Promise<RemoteFile | undefined>;
}

/** The result for a model that is not on this machine. The parameters were checked. */
export async function parseRemote(
  params: ParseSafetensorsMetadataParams,
  settings: RemoteSettings,
): Promise<SafetensorsParseFromRepo> {
  const isCounted = params.computeParametersCount === true;
  return await withScope([params.signal], async ({ signal }) => {
    const finder =
      params.source === undefined
        ? await inRepository(params, settings, signal)
        : atSource(params, settings);
    const opening = finder.open(signal);
    const readingConfig = async (): Promise<unknown> =>
      parsedConfig(fetchSibling(await finder.config(opening), signal), signal);
    try {
      const [model, config] = await Promise.all([
        readModel(opening, signal),
        isCounted ? readingConfig() : undefined,
      ]);
      return await runAsync(resultYielding(model, isCounted ? { config } : null), signal);
    } catch (error) {
      // Opening already removes secrets from its errors.
      const opened = await opening.catch(() => undefined);
      throw opened === undefined ? error : opened.shards.source.withoutSecrets(error);
    }
  });
}

/** Reads all headers. Converts index and headers to objects while others arrive. */
async function readModel(opening: Promise<OpenedModel>, signal: AbortSignal): Promise<ReadModel> {
  const { path, shards } = await opening;
  const { index, names } = shards;
  const readShard = async (name: string, shard: number): Promise<ReadShard> => {
    const header = (await shards.header(shard, signal)) as Header;
    return { name, header, record: headerRecord(header) };
  };
  const convertIndex = async (): Promise<ReadIndex | null> =>
    index === null ? null : { index, record: await runAsync(indexRecord(index), signal) };
  const [readShards, readIndex] = await Promise.all([
    Promise.all(names.map(readShard)),
    convertIndex(),
  ]);
  const folder = path.slice(0, path.lastIndexOf('/') + 1);
  const filepaths = [path, ...(index?.shards ?? []).map((name) => folder + name)];
  return { index: readIndex, shards: readShards, filepaths };
}

/** Finds the model of a repository. All files are of the first answer's commit. */
async function inRepository(
  params: RepositoryParams,
  settings: RemoteSettings,
  signal: AbortSignal,
): Promise<Finder> {
  const { path, revision = 'main', library, hubUrl, fetch } = params;
  const hub = hubUrl ? settingsFor(hubUrl, settings) : settings;
  const endpoint = requireEndpoint(hub.endpoint, 'HF_ENDPOINT');
  const id = {
    cacheName: `models--${modelName(params.repo).replace('/', '--')}`,
    revision,
    path: '',
  };
  const address = { endpoint, id, isFile: false };
  const sending = { token: tokenOf(params), fetch };
  const { repository, session } = await openRepository(address, sending, hub, signal);
  const paths = path
    ? [path]
    : [...CANONICAL_PATHS, ...(library === 'diffusers' ? DIFFUSERS_PATHS : [])];
  return {
    async open(signal) {
      let missing: unknown;
      for (const candidate of paths) {
        try {
          const source = asSource(session, sourceOfPath(repository, candidate));
          const shards = await RemoteShards.open(source, ONLY_SAFETENSORS, signal);
          return { path: candidate, shards };
        } catch (error) {
          if (absenceIn(error) === undefined) throw error;
          missing = error;
        }
      }
      if (paths.length === 1) throw missing;
      const message = `expected one of ${paths.join(', ')} in revision ${revision}, found none`;
      const context = { path: repository.pageOf(''), cause: missing };
      const error = new RemoteError('SAFETENSORS_REMOTE_NOT_FOUND', message, context);
      throw repository.incompleteError(error);
    },
    // Only after the model, whose commit it must share.
    config: async (opening) => {
      await opening;
      return repository.file('config.json');
    },
  };
}

/** Finds the model of a source. */
function atSource(params: SourceParams, settings: RemoteSettings): Finder {
  const options = { token: tokenOf(params), fetch: params.fetch };
  return {
    async open(signal) {
      const source = requireModel(await findSource(params.source, options, settings, signal));
      const shards = await RemoteShards.open(source, ONLY_SAFETENSORS, signal);
      return { path: source.file.path, shards };
    },
    config: async (opening) => (await opening).shards.source.folder?.file('config.json'),
  };
}

/** Settings for another Hub, which must not get this machine's token. */
function settingsFor(hubUrl: string, settings: RemoteSettings): RemoteSettings {
  const endpoint = requireEndpoint(hubUrl, 'hubUrl');
  const usual = requireEndpoint(settings.endpoint, 'HF_ENDPOINT');
  const isSame = new URL(endpoint).origin === new URL(usual).origin;
  return { ...settings, endpoint, ...(isSame ? {} : { readToken: () => undefined }) };
}
