/** The shards of a remote checkpoint: fetches each header once, on first use. */

import { RemoteError, SafetensorsError } from '../errors/errors.js';
import { MAX_CONFIG_BYTE_LENGTH } from '../file/hub/parameter-count.js';
import type { CheckpointIndex } from '../file/shards/checkpoint-index.js';
import { IndexCheck } from '../file/shards/checkpoint-index-check.js';
import { isOfFile } from '../file/shards/file-problems.js';
import { impliedIndex } from '../file/shards/implied-index.js';
import { chooseIndex, isChosen } from '../file/shards/model-choice.js';
import { requireInside } from '../file/shards/shard-paths.js';
import {
  type CheckpointCheck,
  type CheckpointProblem,
  reportOf,
  type UnverifiedReason,
  unverifiedFile,
  type VerificationReport,
} from '../file/shards/verification-report.js';
import type { SiblingFile } from '../file/source/facts.js';
import { Header } from '../header/header.js';
import { parsePythonJson } from '../header/json/python-json.js';
import { ofEach, SharedCall } from '../work/scope.js';
import { Slots } from '../work/slots.js';
import { runAsync } from '../work/work.js';
import { type FetchedHeader, fetchHeader, parseFetched } from './read-header.js';
import { readRemoteIndex } from './read-index.js';
import type { RemoteFile, RemoteSource } from './remote-file.js';
import { requireRemoteModel } from './require-model.js';

/** Requests at a time to the first host: the Hub has refused some of more. */
const HEADERS_AT_ONCE = 16;

/**
 * Headers in flight: while some wait for the first host, others are at the host it redirected to. If that fails, they
 * ask the first host again without queueing.
 */
const HEADERS_UNDER_WAY = 2 * HEADERS_AT_ONCE;

/** Options for the files of a remote checkpoint. */
export interface RemoteShardsOptions {
  readonly maxHeaderByteLength?: number | undefined;
  /** Whether to accept files that are not a model, to inspect them. */
  readonly acceptsIncomplete?: boolean | undefined;
}

/** Files by their position in the index. */
export class RemoteShards {
  readonly source: RemoteSource;
  /** Null when the source is the only file. Of shards without an index it is made of their headers. */
  readonly index: CheckpointIndex | null;
  /** Names as in the index, without `.` parts; the file's name when there is no index. */
  readonly names: readonly string[];
  readonly #options: RemoteShardsOptions;
  /** Created on first use: an index may name very many. */
  readonly #files = new Map<number, RemoteFile>();
  readonly #headers = new Map<number, Header>();
  readonly #calls = new Map<number, SharedCall<Header>>();
  /** Siblings of the weights by their names; undefined if the server lacks the file. */
  readonly #siblings = new Map<string, SiblingFile | undefined>();
  readonly #siblingCalls = new Map<string, SharedCall<SiblingFile | undefined>>();
  readonly #underWay = new Slots(HEADERS_UNDER_WAY);
  readonly #atFirstHost = new Slots(HEADERS_AT_ONCE);

  private constructor(
    source: RemoteSource,
    index: CheckpointIndex | null,
    options: RemoteShardsOptions,
  ) {
    const { path } = source.file;
    this.source = source;
    this.index = index;
    for (const name of index?.shards ?? []) requireInside(name, path);
    this.names = shardNames(source, index);
    this.#options = options;
  }

  /** Fetches the index, or the header of the only file. */
  static async open(
    source: RemoteSource,
    options: RemoteShardsOptions,
    signal: AbortSignal,
  ): Promise<RemoteShards> {
    try {
      const { kind, chosen, file } = source;
      const { acceptsIncomplete } = options;
      const read = kind === 'index' && chosen === undefined;
      const index = read
        ? await readRemoteIndex(file, acceptsIncomplete, signal)
        : (chosen?.index ?? null);
      const shards = new RemoteShards(source, index, options);
      if (index !== null) return shards;
      const headers = await shards.headers(signal);
      return kind === 'shards' ? await shards.#withIndex(headers, signal) : shards;
    } catch (error) {
      throw source.withoutSecrets(error);
    }
  }

  /** The same shards, with the index that they lack. */
  async #withIndex(headers: readonly Header[], signal: AbortSignal): Promise<RemoteShards> {
    const named = headers.map((header, shard) => ({ name: this.names[shard] as string, header }));
    const index = await runAsync(impliedIndex(named, this.source.file.path), signal);
    const shards = new RemoteShards(this.source, index, this.#options);
    // The index lists shards in the order of their tensors, and none without tensors.
    for (const { name, header } of named) {
      const shard = shards.names.indexOf(name);
      if (shard !== -1) shards.#headers.set(shard, header);
    }
    return shards;
  }

  /** The checks of `verify`. */
  get checks(): readonly CheckpointCheck[] {
    return this.source.kind === 'index' ? ['headers', 'index'] : ['headers'];
  }

  /** The header of the only file, fetched by opening. */
  get onlyHeader(): Header {
    return this.#headers.get(0) as Header;
  }

  /** The file of a shard. */
  file(shard: number): RemoteFile {
    const { file: only, folder } = this.source;
    if (this.source.kind === 'file' || folder === null) return only;
    const name = this.names[shard] as string;
    const file = this.#files.get(shard) ?? folder.file(this.#placeOf(name));
    this.#files.set(shard, file);
    return file;
  }

  /** The name of a shard in the folder: the index may have another case or Unicode normalization. */
  #placeOf(name: string): string {
    return this.source.chosen?.model.shards.get(name) ?? name;
  }

  /** The header of a shard. Callers at the same time share one request. */
  async header(shard: number, signal: AbortSignal): Promise<Header> {
    const header = this.#headers.get(shard);
    if (header !== undefined) return header;
    let call = this.#calls.get(shard);
    if (call === undefined || call.isAbandoned) {
      call = new SharedCall((shared) => this.#fetchHeader(shard, shared));
      this.#calls.set(shard, call);
    }
    return await call.wait(signal);
  }

  /** The headers of all shards; null until they are fetched. */
  get knownHeaders(): readonly Header[] | null {
    if (this.#headers.size < this.names.length) return null;
    return this.names.map((_, shard) => this.#headers.get(shard) as Header);
  }

  /** The headers of all shards. */
  async headers(signal: AbortSignal): Promise<Header[]> {
    return await this.#ofEach((shard, ends) => this.header(shard, ends), signal);
  }

  /**
   * A small file next to the weights, fetched once; undefined when the server has none.
   *
   * @throws RemoteError for one that cannot be fetched
   */
  async sibling(name: string, signal: AbortSignal): Promise<SiblingFile | undefined> {
    if (this.#siblings.has(name)) return this.#siblings.get(name);
    let call = this.#siblingCalls.get(name);
    if (call === undefined || call.isAbandoned) {
      call = new SharedCall(async (shared) => {
        const found = await fetchSibling(this.source.folder?.file(name), shared);
        this.#siblings.set(name, found);
        return found;
      });
      this.#siblingCalls.set(name, call);
    }
    return await call.wait(signal);
  }

  /**
   * Verifies headers and index. Fetches the headers of all shards and continues after failures. `reason` is why tensors
   * are not read.
   */
  async verify(signal: AbortSignal, reason: UnverifiedReason): Promise<VerificationReport> {
    const check = new IndexCheck(this.index, fileName(this.source.file.path), this.names);
    const byName = await this.#problemsByName(signal);
    const found = await this.#ofEach(async (shard, ends) => {
      try {
        return await this.header(shard, ends);
      } catch (error) {
        if (!isOfFile(error)) throw error;
        return this.source.withoutSecrets(error) as Error;
      }
    }, signal);
    for (const [shard, one] of found.entries()) {
      if (one instanceof Header) check.add(shard, one);
      else check.addUnreadable(shard, one);
    }
    const files = found.map((one, shard) => {
      const name = this.names[shard] as string;
      return one instanceof Header
        ? unverifiedFile(name, one.size, reason)
        : unverifiedFile(name, 0, 'unreadable');
    });
    return reportOf(this.checks, [...byName, ...check.finish()], files);
  }

  /** Problems that the names in the folder show, where they can be listed. */
  async #problemsByName(signal: AbortSignal): Promise<readonly CheckpointProblem[]> {
    const { chosen, folder, file } = this.source;
    if (chosen !== undefined) return chosen.model.problems;
    if (this.index === null || folder?.names === undefined) return [];
    let names: readonly string[];
    try {
      names = await folder.names(signal);
    } catch (error) {
      // The server serves the files and no list: only the check by names is skipped.
      if (!(error instanceof RemoteError)) throw error;
      return [];
    }
    const found = chooseIndex(
      fileName(file.path),
      { shards: this.index.shards, missing: [] },
      names,
    );
    return isChosen(found) ? found.problems : [];
  }

  /** Maps every shard, a few at a time: calls for all at once would take much memory. */
  #ofEach<Result>(
    work: (shard: number, signal: AbortSignal) => Promise<Result>,
    signal: AbortSignal,
  ): Promise<Result[]> {
    return ofEach(this.names.keys(), HEADERS_UNDER_WAY, work, signal);
  }

  async #fetchHeader(shard: number, signal: AbortSignal): Promise<Header> {
    const file = this.file(shard);
    const { maxHeaderByteLength, acceptsIncomplete } = this.#options;
    let fetched: FetchedHeader | undefined;
    const fetch = async (release: () => void): Promise<void> => {
      signal.throwIfAborted();
      fetched = await fetchHeader(file, maxHeaderByteLength, signal, release);
    };
    await this.#underWay.run(() => this.#atFirstHost.run(fetch));
    // The next request is in flight meanwhile.
    const header = await parseFetched(fetched as FetchedHeader, signal);
    if (acceptsIncomplete !== true) {
      const name = fileName(this.names[shard] as string);
      const found = { header, name, file, isIndexed: this.index !== null };
      await requireRemoteModel(found, this.source.folder, signal);
    }
    this.#headers.set(shard, header);
    return header;
  }
}

function shardNames(
  { file, chosen }: RemoteSource,
  index: CheckpointIndex | null,
): readonly string[] {
  if (index !== null) return index.shards;
  return chosen === undefined ? [fileName(file.path)] : [...chosen.model.shards.keys()];
}

/** The last part of a path. */
function fileName(path: string): string {
  return path.slice(path.lastIndexOf('/') + 1);
}

/**
 * Fetches a small file next to the weights; undefined when the server has none.
 *
 * @throws RemoteError for one that cannot be fetched
 */
export async function fetchSibling(
  file: RemoteFile | undefined,
  signal: AbortSignal,
): Promise<SiblingFile | undefined> {
  try {
    const start = await file?.readStart(MAX_CONFIG_BYTE_LENGTH, signal);
    if (file === undefined || start === undefined) return undefined;
    return { path: file.path, bytes: start.bytes, byteLength: start.fileByteLength };
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

/** Statuses from 400 to 499 that do not say that there is no such file for this caller. */
const BUSY = [408, 425, 429];

/** Whether the file is missing, or a web page is in its place. Some stores answer 403 for a missing file. */
export function isAbsence(error: unknown): boolean {
  if (error instanceof SafetensorsError && error.code === 'SAFETENSORS_NOT_IN_CACHE') return true;
  if (!(error instanceof RemoteError)) return false;
  const { code, status } = error;
  // The server failed: the file may exist.
  if (status !== undefined && status >= 500) return false;
  const isRefused = status !== undefined && status >= 400;
  return (
    (isRefused && !BUSY.includes(status)) ||
    code === 'SAFETENSORS_BAD_RESPONSE' ||
    code === 'SAFETENSORS_REMOTE_NOT_FOUND'
  );
}

/** The parsed `config.json` of a model, for counts alone; undefined if missing or unreadable. */
export async function parsedConfig(
  fetched: Promise<SiblingFile | undefined>,
  signal: AbortSignal,
): Promise<unknown> {
  try {
    const config = await fetched;
    if (config === undefined || config.bytes.length < config.byteLength) return undefined;
    return parsePythonJson(config.bytes);
  } catch {
    signal.throwIfAborted();
    return undefined;
  }
}
