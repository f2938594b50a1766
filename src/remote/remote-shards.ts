/** The shards of a remote checkpoint: fetches each header once, on first use. */

import { absenceIn } from '../errors/absence.js';
import { FormatError, RemoteError } from '../errors/errors.js';
import type { CheckpointIndex } from '../file/shards/checkpoint-index.js';
import { MAX_CONFIG_BYTE_LENGTH, maxSiblingByteLength } from '../file/shards/file-names.js';
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
import { verifyHeaders } from '../file/shards/verify-headers.js';
import type { CountedFiles } from '../file/source/catalog.js';
import type { PlainValue } from '../file/source/plain-value.js';
import type { SiblingFile } from '../file/source/tensor-info.js';
import type { GgufContents } from '../foreign/gguf/header/contents.js';
import type { PlacedContents } from '../foreign/tensors/placed-contents.js';
import { Header } from '../header/header.js';
import { parsePythonJson } from '../header/json/python-json.js';
import { ofEach, SharedCall, withScope } from '../work/scope.js';
import { Slots } from '../work/slots.js';
import { call, immediate, runAsync, type Work } from '../work/work.js';
import {
  type FetchedHeader,
  FIRST_BYTE_LENGTH,
  fetchRestOfHeader,
  parseFetched,
  type RemoteContents,
} from './read-header.js';
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

/** The formats of remote files. */
const FORMATS: readonly string[] = ['safetensors', 'gguf'];

/** Options for the files of a remote checkpoint. */
export interface RemoteShardsOptions {
  readonly maxHeaderByteLength?: number | undefined;
  /** Whether to accept files that are not a model, to inspect them. */
  readonly acceptsIncomplete?: boolean | undefined;
  /** The formats to read: safetensors and GGUF by default. */
  readonly formats?: readonly string[] | undefined;
}

/** What a format other than safetensors adds to tensors. */
export interface RemoteInfo {
  readonly format: 'gguf' | 'dcp';
  /** Returns the value of `extra()`. */
  readonly extra: () => PlainValue;
}

/** A file of a distributed checkpoint, and its pieces. */
export interface PiecesFile {
  readonly name: string;
  readonly file: RemoteFile;
  readonly contents: PlacedContents;
}

/** Files by their position in the index. */
export class RemoteShards implements CountedFiles {
  readonly source: RemoteSource;
  /** Null when the source is the only file. Of shards without an index it is made of their headers. */
  readonly index: CheckpointIndex | null;
  /** Names as in the index, without `.` parts; the file's name when there is no index. */
  readonly names: readonly string[];
  readonly #options: RemoteShardsOptions;
  /** Of other formats than safetensors; known once the model is open. */
  #info: RemoteInfo | null = null;
  /** Created on first use: an index may name very many. */
  readonly #files = new Map<number, RemoteFile>();
  readonly #headers = new Map<number, RemoteContents>();
  readonly #calls = new Map<number, SharedCall<RemoteContents>>();
  /** Siblings of the weights by their names; undefined if the server lacks the file. */
  readonly #siblings = new Map<string, SiblingFile | undefined>();
  readonly #siblingCalls = new Map<string, SharedCall<SiblingFile | undefined>>();
  readonly #underWay = new Slots(HEADERS_UNDER_WAY);
  readonly #atFirstHost = new Slots(HEADERS_AT_ONCE);

  private constructor(
    source: RemoteSource,
    index: CheckpointIndex | null,
    options: RemoteShardsOptions,
    names: readonly string[] = shardNames(source, index),
  ) {
    const { path } = source.file;
    this.source = source;
    this.index = index;
    for (const name of index?.shards ?? []) requireInside(name, path);
    this.names = names;
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
      const headers = await runAsync(shards.allContents(), signal);
      if (kind === 'shards') return await shards.#withIndex(headers, signal);
      const [first] = headers as [RemoteContents];
      if (first instanceof Header) return shards;
      return await shards.#allOfSplit(first as GgufContents, signal);
    } catch (error) {
      throw source.withoutSecrets(error);
    }
  }

  /** Files of a distributed checkpoint, whose pieces are known. */
  static async ofPieces(
    source: RemoteSource,
    files: readonly PiecesFile[],
    info: RemoteInfo,
    signal: AbortSignal,
  ): Promise<RemoteShards> {
    const names = files.map(({ name }) => name);
    const shards = new RemoteShards(source, null, {}, names);
    for (const [shard, { file }] of files.entries()) shards.#files.set(shard, file);
    shards.#info = info;
    const [first, ...others] = files as readonly [PiecesFile];
    if (others.length === 0) {
      shards.#headers.set(0, first.contents);
      return shards;
    }
    const metadata = first.contents.metadata ?? new Map();
    const shardExtension = first.name.slice(first.name.lastIndexOf('.'));
    const contents = files.map((file) => file.contents);
    const indexed = await shards.#withIndex(contents, signal, { metadata, shardExtension });
    indexed.#info = info;
    return indexed;
  }

  /** All files of a GGUF model, given the header of one. */
  async #allOfSplit(first: GgufContents, signal: AbortSignal): Promise<RemoteShards> {
    this.#info = ggufInfo(first);
    const [own] = this.names as [string];
    const { ggufNames, requireTensorCount } = await import('./gguf-file.js');
    const { path } = this.source.file;
    const names = ggufNames(first, own, { path, hasFolder: this.source.folder !== null });
    if (names.length === 1) return this;
    const all = new RemoteShards(this.source, null, this.#options, names);
    all.#headers.set(names.indexOf(own), first);
    const headers = await runAsync(all.allContents(), signal);
    const count = headers.reduce((sum, { size }) => sum + size, 0);
    const begin = headers[0] as GgufContents;
    const { values, metadata } = begin;
    requireTensorCount(values, count, path);
    const shardExtension = own.slice(own.lastIndexOf('.'));
    const indexed = await all.#withIndex(headers, signal, { metadata, shardExtension });
    indexed.#info = ggufInfo(begin);
    return indexed;
  }

  /** The same shards, with the index that they lack. */
  async #withIndex(
    headers: readonly RemoteContents[],
    signal: AbortSignal,
    options?: Parameters<typeof impliedIndex>[2],
  ): Promise<RemoteShards> {
    const named = headers.map((header, shard) => ({ name: this.names[shard] as string, header }));
    const index = await runAsync(impliedIndex(named, this.source.file.path, options), signal);
    const shards = new RemoteShards(this.source, index, this.#options);
    // The index lists shards in the order of their tensors, and none without tensors.
    for (const { name, header } of named) {
      const shard = shards.names.indexOf(name);
      if (shard === -1) continue;
      shards.#headers.set(shard, header);
      // The file whose header was read has pinned its version.
      const file = this.#files.get(this.names.indexOf(name));
      if (file !== undefined) shards.#files.set(shard, file);
    }
    return shards;
  }

  /** What the format adds to tensors; null for safetensors. */
  get info(): RemoteInfo | null {
    return this.#info;
  }

  /** The checks of `verify`. */
  get checks(): readonly CheckpointCheck[] {
    return this.source.kind === 'index' ? ['headers', 'index'] : ['headers'];
  }

  get path(): string {
    return this.source.file.path;
  }

  /** The checkpoint notices its own close. */
  requireOpen(): void {}

  onlyContents(): RemoteContents {
    return this.#headers.get(0) as RemoteContents;
  }

  contentsOf(shards: readonly number[]): Work<RemoteContents[]> {
    return call({
      sync: () => shards.map((shard) => this.#fetched(shard)),
      // A few at a time: calls for all at once would take much memory.
      async: (signal) =>
        ofEach(shards, HEADERS_UNDER_WAY, (shard, ends) => this.header(shard, ends), signal),
    });
  }

  allContents(): Work<RemoteContents[]> {
    return this.contentsOf([...this.names.keys()]);
  }

  contentsAndConfig(): Work<{ contents: readonly RemoteContents[]; config: unknown }> {
    return call({
      async: async (ends) => {
        return await withScope([ends], async ({ signal }) => {
          const [contents, config] = await Promise.all([
            runAsync(this.allContents(), signal),
            parsedConfig(this.sibling('config.json', signal), signal),
          ]);
          return { contents, config };
        });
      },
    });
  }

  /** Throws a TypeError `ERR_INVALID_STATE` for a header that has not been fetched. */
  #fetched(shard: number): RemoteContents {
    const header = this.#headers.get(shard);
    if (header !== undefined) return header;
    const message =
      'The headers of this remote checkpoint are not fetched yet; await its tensors() first';
    throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_STATE' });
  }

  /** The file of a shard. */
  file(shard: number): RemoteFile {
    const { file: only, folder } = this.source;
    const isOnly = this.source.kind === 'file' && this.index === null && this.names.length === 1;
    if (isOnly || folder === null) return only;
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
  async header(shard: number, signal: AbortSignal): Promise<RemoteContents> {
    const header = this.#headers.get(shard);
    if (header !== undefined) return header;
    let call = this.#calls.get(shard);
    if (call === undefined || call.isAbandoned) {
      call = new SharedCall((shared) => this.#fetchHeader(shard, shared));
      this.#calls.set(shard, call);
    }
    return await call.wait(signal);
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
        const file = this.source.folder?.file(name);
        const found = await fetchSibling(file, shared, maxSiblingByteLength(name));
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
    const { index, names } = this;
    const problems = await this.#problemsByName(signal);
    const settle = async (shard: number, ends: AbortSignal): Promise<SettledHeader> => {
      try {
        return { header: await this.header(shard, ends) };
      } catch (error) {
        if (!isOfFile(error)) throw error;
        return { error: this.source.withoutSecrets(error) };
      }
    };
    const found = await ofEach(names.keys(), HEADERS_UNDER_WAY, settle, signal);
    const headerOf = (shard: number): Work<RemoteContents> =>
      immediate(() => {
        const one = found[shard] as SettledHeader;
        if ('header' in one) return one.header;
        throw one.error;
      });
    const checked = { index, name: fileName(this.path), names, problems };
    const all = await runAsync(verifyHeaders(checked, headerOf), signal);
    const files = found.map((one, shard) => {
      const name = names[shard] as string;
      return 'header' in one
        ? unverifiedFile(name, one.header.size, reason)
        : unverifiedFile(name, 0, 'unreadable');
    });
    return reportOf(this.checks, all, files);
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

  async #fetchHeader(shard: number, signal: AbortSignal): Promise<RemoteContents> {
    const file = this.file(shard);
    const { maxHeaderByteLength, acceptsIncomplete, formats = FORMATS } = this.#options;
    let fetched: FetchedHeader | GgufContents | undefined;
    const fetch = async (release: () => void): Promise<void> => {
      signal.throwIfAborted();
      const start = await file.readStart(FIRST_BYTE_LENGTH, signal, release);
      const isGguf = String.fromCharCode(...start.bytes.subarray(0, 4)) === 'GGUF';
      if (!isGguf && !formats.includes('safetensors')) {
        const expected = formats.includes('gguf') ? 'a GGUF file' : 'a distributed checkpoint';
        const message = `expected ${expected}, found a file of another format`;
        throw new FormatError('SAFETENSORS_FOREIGN_FORMAT', message, { path: file.path });
      }
      if (isGguf && formats.includes('gguf')) {
        const { fetchGguf } = await import('./gguf-file.js');
        fetched = await fetchGguf(file, start, maxHeaderByteLength, signal);
      } else {
        fetched = await fetchRestOfHeader(file, start, maxHeaderByteLength, signal);
      }
    };
    await this.#underWay.run(() => this.#atFirstHost.run(fetch));
    const read = fetched as FetchedHeader | GgufContents;
    // The next request is in flight meanwhile.
    const header = 'start' in read ? await parseFetched(read, signal) : read;
    if (acceptsIncomplete !== true && header instanceof Header) {
      const name = fileName(this.names[shard] as string);
      const found = { header, name, file, isIndexed: this.index !== null };
      await requireRemoteModel(found, this.source.folder, signal);
    }
    this.#headers.set(shard, header);
    return header;
  }
}

function ggufInfo({ values }: GgufContents): RemoteInfo {
  return { format: 'gguf', extra: () => values.decode() };
}

/** A header, or the reason why it cannot be read. */
type SettledHeader = { readonly header: RemoteContents } | { readonly error: unknown };

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
  maxByteLength: number = MAX_CONFIG_BYTE_LENGTH,
): Promise<SiblingFile | undefined> {
  try {
    const start = await file?.readStart(maxByteLength, signal);
    if (file === undefined || start === undefined) return undefined;
    return { path: file.path, bytes: start.bytes, byteLength: start.fileByteLength };
  } catch (error) {
    if (isAbsence(error)) return undefined;
    throw error;
  }
}

/** Statuses from 400 to 499 that do not say that there is no such file for this caller. */
const BUSY = [408, 425, 429];

/**
 * Whether the file is missing, the server rejects the request, or a web page is in its place. Some stores answer 403
 * for a missing file.
 */
export function isAbsence(error: unknown): boolean {
  if (absenceIn(error) !== undefined) return true;
  if (!(error instanceof RemoteError)) return false;
  const { status = 0, foundFormat } = error;
  // After a status from 500 the file may exist.
  const isUnsupported = status >= 400 && status < 500 && !BUSY.includes(status);
  return isUnsupported || foundFormat === 'html';
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
