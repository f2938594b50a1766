/** Opens remote checkpoints. */

import {
  argumentTypeError,
  type OptionNames,
  requireBoolean,
  requireFunction,
  requireInteger,
  requireOptions,
  requireSignal,
} from '../errors/arguments.js';
import { isUrl } from '../errors/brand-checks.js';
import { noRevision } from '../file/hub/ids.js';
import { noVariant, requireVariant } from '../file/shards/file-choice.js';
import { requireLittleEndianHost } from '../header/dtype.js';
import { withScope } from '../work/scope.js';
import {
  type BlobFolder,
  type ByteSource,
  blobFolderSource,
  byteSourceOf,
  isBlobFolder,
} from './byte-source.js';
import { RemoteCheckpoint } from './checkpoint.js';
import type { SourceAcceptance } from './choose-files.js';
import type { HeadersInput } from './credentials.js';
import type { FetchLimits } from './fetch-tensors.js';
import { type NoRemoteModel, requireModel } from './found-file.js';
import { FIRST_BYTE_LENGTH } from './read-header.js';
import type { RemoteSettings } from './receiver.js';
import type { RemoteSource } from './remote-file.js';
import { RemoteShards, type RemoteShardsOptions } from './remote-shards.js';
import type { Fetch } from './session.js';
import { findRemote, type SourceChoice } from './source.js';
import type { Digest } from './whole-digests.js';

/** Options of `open`. */
export interface RemoteOptions extends SourceChoice {
  /**
   * Token that goes to the origin of `source` and to no other, and over plain `http:` only to this machine. In Node
   * the default for sources on the Hub is `HF_TOKEN` or the token file; false sends none.
   */
  readonly token?: string | false | undefined;
  /** Headers for requests to the origin of `source`, as `token`. */
  readonly headers?: HeadersInput | undefined;
  /** Used instead of the runtime's `fetch`, such as one that goes through a proxy. */
  readonly fetch?: Fetch | undefined;
  /** Aborts the opening: the promise rejects with `signal.reason`. Later calls have separate signals. */
  readonly signal?: AbortSignal | undefined;
  /** Requests for tensors at a time, 1 to 64; 8 by default. */
  readonly concurrency?: number | undefined;
  /** Longest header accepted, in bytes; 100 000 000 by default, the limit of the reference. */
  readonly maxHeaderByteLength?: number | undefined;
  /**
   * Compares every whole tensor with its digest in the metadata of the file (`safetensors-mmap.sha256`). Pass false for
   * a file with digests of other tensors, left by a tool that copied its metadata. True by default.
   */
  readonly verify?: boolean | undefined;
}

/** Names of the options. */
export const REMOTE_OPTIONS: OptionNames<RemoteOptions> = {
  token: true,
  headers: true,
  fetch: true,
  signal: true,
  concurrency: true,
  maxHeaderByteLength: true,
  verify: true,
  variant: true,
  revision: true,
};

/** Requests at a time: with pieces of 8 MiB they fill a fast line. */
const DEFAULT_CONCURRENCY = 8;
const LARGEST_CONCURRENCY = 64;

/** Settings that differ between Node and browsers. */
export interface RemoteRuntime {
  /** Longest possible buffer, in bytes. */
  readonly maxBufferByteLength: number;
  readonly hubSettings: RemoteSettings;
  readonly digest: Digest;
  /** Undefined in browsers: the code of these checkpoints is not worth its size there. */
  readonly openDistributed?: OpenRemoteDistributed | undefined;
}

/** Opens a distributed checkpoint. Takes ownership of the source unless it throws. */
export type OpenRemoteDistributed = (
  source: RemoteSource,
  reading: { readonly limits: FetchLimits; readonly maxHeaderByteLength: number | undefined },
  signal: AbortSignal,
) => Promise<RemoteCheckpoint>;

/**
 * Checks the options, and returns the settings for fetching.
 *
 * @throws TypeError, RangeError
 */
export function requireRemoteOptions(
  { maxBufferByteLength, digest }: RemoteRuntime,
  options: RemoteOptions,
): FetchLimits {
  requireOptions(options, REMOTE_OPTIONS);
  const { concurrency = DEFAULT_CONCURRENCY, verify = true } = options;
  requireBoolean('verify', verify);
  requireSignal(options.signal);
  if (options.fetch !== undefined) requireFunction('fetch', options.fetch);
  requireInteger('concurrency', concurrency, 1, LARGEST_CONCURRENCY);
  requireLittleEndianHost(undefined);
  return { maxBufferByteLength, concurrency, digest: verify ? digest : undefined };
}

/** What to accept. */
interface RemoteReading extends Pick<RemoteShardsOptions, 'formats'> {
  /** Whether to accept files that are not a model, to inspect them. */
  readonly acceptsIncomplete?: boolean;
}

/**
 * Opens a checkpoint: fetches the index, or the header of the only file.
 */
export async function openRemoteIn(
  runtime: RemoteRuntime,
  source: string | URL | Blob | BlobFolder | ByteSource,
  options: RemoteOptions,
  reading: RemoteReading = {},
): Promise<RemoteCheckpoint> {
  return requireModel(await openModelIn(runtime, source, options, reading));
}

/** As {@link openRemoteIn}; a folder without a model is a result. */
export async function openModelIn(
  runtime: RemoteRuntime,
  source: string | URL | Blob | BlobFolder | ByteSource,
  options: RemoteOptions,
  { acceptsIncomplete = false, formats }: RemoteReading = {},
): Promise<RemoteCheckpoint | NoRemoteModel> {
  const limits = requireRemoteOptions(runtime, options);
  const { maxHeaderByteLength } = options;
  return await withScope([options.signal], async ({ signal }) => {
    const { openDistributed } = runtime;
    const acceptsDistributed = openDistributed !== undefined && (formats?.includes('dcp') ?? true);
    const choice = { ...options, acceptsIncomplete, acceptsDistributed };
    const found = await findSource(source, choice, runtime.hubSettings, signal);
    if ('error' in found) return found;
    try {
      if (found.kind === 'distributed' && openDistributed !== undefined && acceptsDistributed) {
        return await openDistributed(found, { limits, maxHeaderByteLength }, signal);
      }
      const shards = await RemoteShards.open(
        found,
        { maxHeaderByteLength, acceptsIncomplete, formats },
        signal,
      );
      return RemoteCheckpoint.of(shards, limits);
    } catch (error) {
      found.close();
      throw error;
    }
  });
}

/**
 * Finds the files of a source. Sends requests only for a repository or a folder.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE`; as `findRemote`
 */
export async function findSource(
  source: string | URL | Blob | BlobFolder | ByteSource,
  {
    token,
    headers,
    fetch,
    variant,
    revision,
    acceptsIncomplete,
    acceptsDistributed,
  }: RemoteOptions & SourceAcceptance,
  settings: RemoteSettings,
  signal: AbortSignal,
): Promise<RemoteSource | NoRemoteModel> {
  if (typeof source === 'string' || isUrl(source)) {
    const session = { token, headers, fetch };
    const choice = { variant, revision, acceptsIncomplete, acceptsDistributed };
    const options = { ...session, ...choice, startByteLength: FIRST_BYTE_LENGTH };
    return await findRemote(source, options, settings, signal);
  }
  requireVariant(variant);
  if (isBlobFolder(source)) {
    if (revision !== undefined) throw noRevision('bytes', revision);
    return await blobFolderSource(source, {
      variant,
      acceptsIncomplete,
      acceptsDistributed,
      signal,
    });
  }
  const found = byteSourceOf(source);
  if (found !== null && revision !== undefined) throw noRevision('bytes', revision);
  if (found !== null && variant !== undefined) throw noVariant('bytes', variant);
  if (found !== null) return found;
  const expected =
    'a URL, hf://org/name, a Blob, a Map of Blobs, or an object with byteLength and read(begin, end, signal)';
  throw argumentTypeError('source', expected, source);
}
