/** Arguments of `parseSafetensorsMetadata`. */

import {
  argumentRangeError,
  argumentTypeError,
  type OptionNames,
  requireBoolean,
  requireFunction,
  requireOptions,
  requireSignal,
  requireString,
} from '../../errors/arguments.js';
import { isRepositoryName, requireRevision } from '../../file/hub/ids.js';
import { pathError } from '../../file/shards/shard-paths.js';
import type { ByteSource } from '../byte-source.js';
import type { Fetch } from '../session.js';
import { RE_SAFETENSORS_FILE, RE_SAFETENSORS_INDEX_FILE } from './file-names.js';

/** A repository as an object. */
export interface RepoId {
  /** Its kind. Only a `model` has weights. */
  readonly type: string;
  /** Organisation and name, as `org/name`. */
  readonly name: string;
}

/** A repository with a model: `org/name`, or the same as an object. */
export type RepoDesignation = string | RepoId;

/** A token in the form of older versions of `@huggingface/hub`. */
export interface RepoCredentials {
  /** The token. */
  readonly accessToken: string;
}

/** Options for all models. */
export interface SharedParams {
  /** Whether to count parameters, which takes `config.json` too; false by default. */
  readonly computeParametersCount?: boolean | undefined;
  /** The token for the model's host, in any form. False sends none, not even `HF_TOKEN`. */
  readonly accessToken?: string | false | undefined;
  /** The token in its old form, unless `accessToken` is given. */
  readonly credentials?: RepoCredentials | undefined;
  /** Called instead of the global `fetch`. */
  readonly fetch?: Fetch | undefined;
  /** Aborts the call, which then rejects with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

/** A model in a repository of the Hub. */
export interface RepositoryParams extends SharedParams {
  /** The repository; only models have weights. */
  readonly repo: RepoDesignation;
  /**
   * A safetensors file or an index of the repository. By default the first of `model.safetensors`,
   * `model.safetensors.index.json` and the files that `library` adds.
   */
  readonly path?: string | undefined;
  /** Branch, tag, ref or commit; `main` by default. */
  readonly revision?: string | undefined;
  /**
   * With `diffusers` also looks for `diffusion_pytorch_model.safetensors` and its index in `transformer`,
   * in `unet` and next to `model_index.json`. Others add nothing.
   */
  readonly library?: string | undefined;
  /** Address of the Hub; `HF_ENDPOINT`, or https://huggingface.co. */
  readonly hubUrl?: string | undefined;
  /** Not next to `repo`. */
  readonly source?: undefined;
}

/** A model anywhere. */
export interface SourceParams extends SharedParams {
  /** Any source of `open`; in Node also any of `safeOpen`: a folder, an index, a file. */
  readonly source: string | URL | Blob | ByteSource;
  /** Not next to `source`; nor are the other members of {@link RepositoryParams}. */
  readonly repo?: undefined;
}

/** Argument of `parseSafetensorsMetadata`. */
export type ParseSafetensorsMetadataParams = RepositoryParams | SourceParams;

const NAMES: OptionNames<RepositoryParams> = {
  repo: true,
  path: true,
  revision: true,
  library: true,
  hubUrl: true,
  source: true,
  computeParametersCount: true,
  accessToken: true,
  credentials: true,
  fetch: true,
  signal: true,
};

const TEXT_PARAMS = ['path', 'revision', 'library', 'hubUrl'] as const;
const OF_REPOSITORIES = ['path', 'revision', 'library', 'hubUrl'] as const;

/** Prefixes of repositories that hold no models, and one that must be left out. */
const KIND = /^(?:model|dataset|space|kernel|bucket)s?\//;

/** Throws a TypeError or a RangeError for a mistake of the caller's. */
export function requireParams(params: ParseSafetensorsMetadataParams): void {
  requireOptions(params, NAMES);
  const { repo, source, computeParametersCount = false, fetch, signal } = params;
  const texts: Partial<RepositoryParams> = params as RepositoryParams;
  for (const name of TEXT_PARAMS) if (texts[name] !== undefined) requireString(name, texts[name]);
  const { accessToken = false } = params;
  if (accessToken !== false) requireString('accessToken', accessToken);
  requireBoolean('computeParametersCount', computeParametersCount);
  if (fetch !== undefined) requireFunction('fetch', fetch);
  requireSignal(signal);
  if (repo === undefined && source === undefined) {
    throw argumentTypeError('repo', 'given, or source instead of it', repo);
  }
  if (repo !== undefined && source !== undefined) {
    throw argumentTypeError('source', 'left out with repo', source);
  }
  if (source !== undefined) {
    const needless = OF_REPOSITORIES.find((name) => texts[name] !== undefined);
    if (needless === undefined) return;
    throw argumentTypeError(needless, 'undefined with source', texts[needless]);
  }
  const { path, revision } = texts;
  if (revision !== undefined) requireRevision(revision);
  if (!path) return;
  const hasKnownEnd = RE_SAFETENSORS_FILE.test(path) || RE_SAFETENSORS_INDEX_FILE.test(path);
  if (hasKnownEnd && pathError(path) === null) return;
  const expected = 'a path that ends with .safetensors or .safetensors.index.json';
  throw argumentRangeError('path', expected, path);
}

/** The name of a repository, as `org/name`. Throws a TypeError for one without models. */
export function modelName(repo: RepoDesignation): string {
  const { type, name } = typeof repo === 'string' ? { type: 'model', name: repo } : Object(repo);
  const isModel = type === 'model' && typeof name === 'string' && !KIND.test(name);
  const parts = isModel ? name.split('/') : [];
  if (isModel && parts.length <= 2 && isRepositoryName(parts)) return name;
  throw argumentTypeError('repo', "a model, as 'org/name'", typeof repo === 'string' ? repo : name);
}

/** The token of a call; undefined if it names none, false to send none. */
export function tokenOf({ accessToken, credentials }: SharedParams): string | false | undefined {
  return accessToken === false ? false : accessToken || credentials?.accessToken || undefined;
}
