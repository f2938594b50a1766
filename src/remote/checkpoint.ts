/** An open remote checkpoint: names and metadata are available at once, everything else takes requests. */

import {
  type OptionNames,
  requireInteger,
  requireNames,
  requireOptions,
  requireSignal,
  requireString,
} from '../errors/arguments.js';
import { FileChangedError, FileClosedError, type SafetensorsError } from '../errors/errors.js';
import { hintPythonMethods } from '../errors/python-methods.js';
import { uncloneable } from '../errors/uncloneable.js';
import type { CheckpointSummary } from '../file/hub/parameter-count.js';
import type { SourceMetadata } from '../file/shards/metadata.js';
import { siblingName } from '../file/shards/shard-paths.js';
import type { CheckpointCheck, VerificationReport } from '../file/shards/verification-report.js';
import { Catalog, type LocatedTensor } from '../file/source/catalog.js';
import type { PlainValue } from '../file/source/plain-value.js';
import { requireStreamOptions, type StreamOptions, streamTensors } from '../file/source/stream.js';
import { summarize } from '../file/source/summary.js';
import type {
  ShardHeader,
  SiblingFile,
  TensorEntry,
  TensorInfo,
} from '../file/source/tensor-info.js';
import type { TensorSource } from '../file/source/tensor-source.js';
import {
  requireVerifyBytesOptions,
  type VerifyBytesOptions,
} from '../file/source/verify-options.js';
import { VIEW_OF, type ViewParts, viewMetadata } from '../file/source/view.js';
import { INSPECT, type Inspect, showInfo } from '../tensor/inspection.js';
import { type Partition, planPartition } from '../tensor/partition.js';
import { type SliceIndex, type SliceIndices, splitOptions } from '../tensor/slice.js';
import type { Tensor } from '../tensor/tensor.js';
import { withScope } from '../work/scope.js';
import { requireTransferOptions, type TransferProgress } from '../work/transfer.js';
import { runAsync, runSync } from '../work/work.js';
import type { FetchLimits } from './fetch-tensors.js';
import { RemoteFiles } from './remote-files.js';
import type { RemoteShards } from './remote-shards.js';
import { RemoteStream } from './remote-stream.js';
import type { RemoteTensors } from './remote-tensors.js';
import { RemoteView } from './remote-view.js';

/** Options of calls of a {@link RemoteCheckpoint} that may fetch headers. */
interface RemoteCallOptions {
  /** Ends the requests of this call, which rejects with `signal.reason`. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of {@link RemoteCheckpoint.getTensor} and {@link RemoteCheckpoint.getPartition}. */
interface RemoteReadOptions extends RemoteCallOptions {
  /**
   * Called at most ten times a second while bytes arrive, and once when all have. An error from it ends the call,
   * which rejects with that error.
   */
  readonly onProgress?: ((progress: TransferProgress) => void) | undefined;
}

/** Options of {@link RemoteCheckpoint.readTensors}. */
interface RemoteTensorsOptions extends RemoteReadOptions {
  /**
   * Tensors that are at most this many bytes apart are fetched by one request, with the bytes between
   * them; 65 536 by default.
   */
  readonly maxGapByteLength?: number | undefined;
}

const CALL_OPTIONS: OptionNames<RemoteCallOptions> = { signal: true };
const READ_OPTIONS: OptionNames<RemoteReadOptions> = { ...CALL_OPTIONS, onProgress: true };
const TENSORS_OPTIONS: OptionNames<RemoteTensorsOptions> = {
  ...READ_OPTIONS,
  maxGapByteLength: true,
};

/** The result of {@link RemoteCheckpoint.toJSON}; only the first three once `ok` is false. */
export interface RemoteCheckpointJson {
  /** As `RemoteCheckpoint.path`. */
  readonly path: string;
  /** As `RemoteCheckpoint.shards`. */
  readonly shards: readonly string[];
  /** As `RemoteCheckpoint.ok`. */
  readonly ok: boolean;
  /** As `RemoteCheckpoint.size`. */
  readonly size?: number;
  /** As `RemoteCheckpoint.metadata`, as an object. */
  readonly metadata?: Readonly<Record<string, string>> | null;
}

const UNCLONEABLE = uncloneable('A RemoteCheckpoint', 'post its source, and open that there');

/**
 * An open remote checkpoint, made by `open`: one file, or the shards that an index names. Opening fetches the
 * index or the only file's header, which answers `keys`, `has`, `size`, `metadata` and `shards`. All other methods
 * return promises: they fetch the header of a shard on first use, and tensors again on every call. A tensor owns its
 * memory, which nothing else refers to.
 *
 * Names of dropped tensors are aliases of the kept ones, as in a `Checkpoint`.
 *
 * It has the members of a `Checkpoint`, with these differences:
 * - `info`, `getTensor`, `getSlice`, `getPartition`, `offsetKeys` and `byteLength` return promises, since they may have
 *   to send requests. They take a `signal`, those for tensors also `onProgress`.
 * - No `prefetch`, `residency` and `storage`: no page cache and no mapping holds the bytes.
 * - No iteration and no `getTensors`, which would fetch tensor by tensor: call `stream` or `readTensors`, which also
 *   takes `maxGapByteLength`.
 * - `close` has no option `detach`: tensors own their memory.
 *
 * After `close()` everything but `path`, `format`, `root`, `extra`, `shards`, `ignoredFiles`, `problems`, `checks`,
 * `ok` and `close()` itself throws or rejects with `SAFETENSORS_FILE_CLOSED`; tensors stay valid.
 *
 * @example
 * ```ts
 * const checkpoint = await open('https://models.example/my-model/model.safetensors.index.json');
 * console.log(checkpoint.size, checkpoint.shards.length); // → 2 2
 * const norm = await checkpoint.getTensor('norm.weight'); // the header of its shard, then its 16 bytes
 * console.log(norm.data); // → Float32Array(4) [ 0, 0, 0, 0 ]
 * checkpoint.close();
 * ```
 */
export class RemoteCheckpoint implements TensorSource {
  static {
    const names = { get_tensor: 'readTensors', get_slice: 'getSlice', offset_keys: 'tensors' };
    hintPythonMethods(RemoteCheckpoint, names);
  }

  /** @internal */
  readonly uncloneable = UNCLONEABLE;
  readonly #tensors: RemoteTensors;
  readonly #catalog: Catalog;
  readonly #problems: readonly SafetensorsError[];
  readonly #closing = new AbortController();
  #isChanged = false;
  /** Of a view its base, and what it is made of. */
  #view: { readonly base: RemoteCheckpoint; readonly parts: ViewParts } | undefined;

  private constructor(tensors: RemoteTensors, problems: readonly SafetensorsError[]) {
    this.#tensors = tensors;
    this.#catalog = new Catalog(tensors.files, problems);
    this.#problems = Object.freeze([...problems]);
  }

  /** @internal Takes ownership of the shards. */
  static of(shards: RemoteShards, limits: FetchLimits): RemoteCheckpoint {
    return new RemoteCheckpoint(new RemoteFiles(shards, limits), []);
  }

  /** @internal Makes a view, which reads through this checkpoint and does not own it. */
  [VIEW_OF](parts: ViewParts): RemoteCheckpoint {
    const tensors = new RemoteView(this, this.#tensors, () => this.#requireOpen(), parts);
    const view = new RemoteCheckpoint(tensors, parts.problems);
    view.#view = { base: this, parts };
    return view;
  }

  /**
   * @internal As `tensors`, without requests.
   *
   * @throws TypeError `ERR_INVALID_STATE` when headers have not been fetched
   */
  entriesNow(): TensorEntry[] {
    this.#requireOpen();
    return runSync(this.#catalog.tensors());
  }

  /** @internal Of a dequantized view the method that the configuration names; else null. */
  get quantMethod(): string | null {
    return this.#view?.parts.quantMethod ?? null;
  }

  #requireOpen(): void {
    this.#closing.signal.throwIfAborted();
    this.#tensors.files.requireOpen();
  }

  /** False: methods that read tensors send requests and return promises. */
  get local(): false {
    return false;
  }

  /** The format of the files. */
  get format(): 'safetensors' | 'gguf' | 'dcp' {
    return this.#tensors.format;
  }

  /** Only torch checkpoints have a root. */
  get root(): undefined {
    return undefined;
  }

  /** All metadata of a GGUF model, or the pieces of a distributed one, as of a `Checkpoint`; null for safetensors. */
  async extra(): Promise<PlainValue> {
    return this.#tensors.extra;
  }

  /**
   * Errors for tensors that cannot be read, as of a `Checkpoint`: of a view of `dequantize` the weights of unknown
   * schemes. Empty for files, since a bad header is an error of `open`.
   */
  get problems(): readonly SafetensorsError[] {
    return this.#problems;
  }

  /** Address of the index or of the only file, without query and fragment; the name of a `File`. */
  get path(): string {
    return this.#tensors.path;
  }

  /** Names of the shards, relative to the folder of `path`, in the order of the index. */
  get shards(): readonly string[] {
    return [...this.#tensors.shards];
  }

  /**
   * Names of files in the same folder that another tool might open instead, as `Checkpoint.ignoredFiles`. Empty for the
   * address of a file or an index.
   */
  get ignoredFiles(): readonly string[] {
    return this.#tensors.ignoredFiles;
  }

  /** The checks of `verify()`; the same after `close()`. */
  get checks(): readonly CheckpointCheck[] {
    return this.#tensors.checks;
  }

  /** False after `close()`, and once a file has changed on the server. */
  get ok(): boolean {
    return !this.#isChanged && !this.#closing.signal.aborted;
  }

  /** Number of tensors; by the index, if there is one. */
  get size(): number {
    this.#requireOpen();
    return this.#catalog.size;
  }

  /**
   * The metadata of the index or of the single file; null if absent. Other values than strings in an index,
   * such as `total_size`, are given as their JSON text. Don't modify it.
   */
  get metadata(): ReadonlyMap<string, string> | null {
    this.#requireOpen();
    return this.#catalog.metadata;
  }

  /** Length of all shards in bytes, headers included. Fetches the headers of all shards. */
  async byteLength(options: RemoteCallOptions = {}): Promise<number> {
    requireOptions(options, CALL_OPTIONS);
    return await this.#run(options, async ({ signal }) => {
      return await this.#tensors.byteLength(signal);
    });
  }

  /**
   * The headers of all shards, as `Checkpoint.headers` gives them; a new array of frozen objects. Fetches the
   * headers that are not known yet.
   *
   * @throws FormatError when a shard is bad; `signal.reason`
   *
   * @example
   * ```ts
   * const checkpoint = await open('https://models.example/model.safetensors');
   * const [header] = await checkpoint.headers();
   * console.log(header?.file, header?.tensors.length); // → model.safetensors 2
   * console.log(JSON.parse(header?.text ?? '')['norm.weight'].dtype); // → F32
   * ```
   */
  async headers(options: RemoteCallOptions = {}): Promise<ShardHeader[]> {
    requireOptions(options, CALL_OPTIONS);
    return await this.#run(options, ({ signal }) => runAsync(this.#catalog.headers(), signal));
  }

  /** Names sorted by their UTF-8 bytes; a new array. */
  keys(): string[] {
    this.#requireOpen();
    return this.#catalog.keys();
  }

  /** Whether a tensor or an alias has that name, according to the index if there is one. */
  has(name: string): boolean {
    requireString('name', name);
    this.#requireOpen();
    return this.#catalog.find(name) !== null;
  }

  /**
   * Names shard by shard, in the order of the tensors' bytes; a new array. Fetches the headers of all
   * shards.
   *
   * @throws FormatError `SAFETENSORS_INDEX_MISMATCH` when the index names a missing tensor
   */
  async offsetKeys(options: RemoteCallOptions = {}): Promise<string[]> {
    requireOptions(options, CALL_OPTIONS);
    return await this.#run(options, ({ signal }) => runAsync(this.#catalog.offsetKeys(), signal));
  }

  /**
   * Names, dtypes, shapes and places of all tensors, in the order of `offsetKeys`; a new array of frozen objects.
   * Fetches the headers of all shards.
   *
   * @throws FormatError when a shard is bad, and `SAFETENSORS_INDEX_MISMATCH` when the index names a missing tensor;
   *   `signal.reason`
   *
   * @example
   * ```ts
   * const checkpoint = await open('https://models.example/model.safetensors');
   * const entries = await checkpoint.tensors();
   * console.log(entries.map(({ name, byteLength }) => `${name} ${byteLength}`));
   * // → [ 'norm.weight 16', 'embed.weight 64' ]
   * ```
   */
  async tensors(options: RemoteCallOptions = {}): Promise<TensorEntry[]> {
    requireOptions(options, CALL_OPTIONS);
    return await this.#run(options, ({ signal }) => runAsync(this.#catalog.tensors(), signal));
  }

  /**
   * Makes the checks that opening skips: the header of every shard, that index and shards name the same tensors and
   * none twice, and `total_size`. Fetches the headers of all shards and continues after failures. Reads no other
   * bytes, so the report lists no tensor as compared; only the option `signal` has an effect.
   *
   * @returns the report: `ok` is false if there are problems
   *
   * @throws FileClosedError; `signal.reason`
   */
  async verify(options: VerifyBytesOptions = {}): Promise<VerificationReport> {
    requireVerifyBytesOptions(options);
    const reason = options.headersOnly === true ? 'skipped' : 'not-read';
    return await this.#run(options, ({ signal }) => this.#tensors.verify(signal, reason));
  }

  /**
   * Dtype, shape and place in its shard of a tensor; a new frozen object. Fetches the header of that
   * shard only.
   *
   * @throws TensorNotFoundError; FormatError also when the shard is bad, and `SAFETENSORS_INDEX_MISMATCH` when the
   *   index names a missing tensor
   *
   * @example
   * ```ts
   * const checkpoint = await open('https://models.example/model.safetensors');
   * const { dtype, shape } = await checkpoint.info('embed.weight');
   * console.log(dtype, shape); // → BF16 [ 8, 4 ]
   * ```
   */
  async info(name: string, options: RemoteCallOptions = {}): Promise<TensorInfo> {
    requireString('name', name);
    requireOptions(options, CALL_OPTIONS);
    return await this.#run(options, ({ signal }) => runAsync(this.#catalog.info(name), signal));
  }

  /**
   * Tensors, parameters and bytes per dtype and by shard, counted as the Hub does: by the headers of all
   * shards, and the `config.json` next to them if there is one.
   *
   * @example
   * ```ts
   * const checkpoint = await open('https://models.example/my-model/model.safetensors.index.json');
   * const { parameters, dtypes } = await checkpoint.summary();
   * console.log(parameters, dtypes.get('BF16')?.byteLength); // → 36 64
   * ```
   */
  async summary(options: RemoteCallOptions = {}): Promise<CheckpointSummary> {
    requireOptions(options, CALL_OPTIONS);
    return await this.#run(options, ({ signal }) =>
      runAsync(summarize(this.#tensors.files), signal),
    );
  }

  /**
   * A small file of the model, such as `config.json`: from the folder of `path`, the repository, or the same Map of
   * Blobs. One request, the first time. A new object on every call; undefined when there is no such file, and for a
   * single Blob or reader.
   *
   * @param name relative to the folder; `text_encoder/config.json` is below it
   * @throws FormatError `SAFETENSORS_UNSAFE_SHARD_NAME` for a name that leads out of the folder; RemoteError for a file
   *   that cannot be fetched; FileClosedError; `signal.reason`
   *
   * @example
   * ```ts
   * const checkpoint = await open('https://models.example/my-model/model.safetensors.index.json');
   * const config = await checkpoint.sibling('config.json');
   * console.log(config && JSON.parse(new TextDecoder().decode(config.bytes)).model_type); // → example
   * ```
   */
  async sibling(name: string, options: RemoteCallOptions = {}): Promise<SiblingFile | undefined> {
    requireString('name', name);
    requireOptions(options, CALL_OPTIONS);
    return await this.#run(options, async ({ signal }) => {
      const found = await this.#tensors.sibling(siblingName(name, this.path), signal);
      // The caller may change the bytes.
      return found && Object.freeze({ ...found, bytes: found.bytes.slice() });
    });
  }

  /**
   * A tensor, fetched into separate memory; for an alias the kept tensor. One request, several next to each other
   * for a tensor of more than 8 MiB. Calls in the same turn of the event loop share requests for bytes that are at
   * most 64 KiB apart; an abort ends only its own call. Its bytes must have the digest that the metadata of its file
   * declares (`safetensors-mmap.sha256`), if any.
   *
   * @throws As `info`; `SAFETENSORS_TENSOR_TOO_LARGE` before anything is fetched,
   *   `SAFETENSORS_OUT_OF_MEMORY`, FileChangedError; FormatError `SAFETENSORS_CHECKSUM_MISMATCH`
   */
  async getTensor(name: string, options: RemoteReadOptions = {}): Promise<Tensor> {
    requireOptions(options, READ_OPTIONS);
    return await this.#fetchOne(name, options, async (tensor, scope) => {
      return (await this.#tensors.fetch([tensor], progressOption(options), scope))[0] as Tensor;
    });
  }

  /**
   * Several tensors by name, in the order given; all, as `offsetKeys` gives them, without an argument.
   * Those near each other are fetched together, and long ones in pieces: up to `concurrency` requests of
   * 8 MiB at a time. Besides the tensors it needs memory for these.
   *
   * @throws As `getTensor`. The first request that fails ends the others
   *
   * @example
   * ```ts
   * const checkpoint = await open('https://models.example/model.safetensors');
   * const tensors = await checkpoint.readTensors(['norm.weight', 'embed.weight'], {
   *   signal: AbortSignal.timeout(60_000),
   *   onProgress: ({ bytes, totalBytes }) => console.log(`${bytes} of ${totalBytes}`),
   * });
   * console.log(tensors.get('embed.weight')?.toFloat32().at(-1));
   * // → 80 of 80
   * // → 7.75
   * ```
   */
  async readTensors(
    names?: Iterable<string>,
    options: RemoteTensorsOptions = {},
  ): Promise<Map<string, Tensor>> {
    requireOptions(options, TENSORS_OPTIONS);
    if (names !== undefined) requireNames(names);
    requireTransferOptions(options);
    const { onProgress, maxGapByteLength } = options;
    if (maxGapByteLength !== undefined) {
      requireInteger('maxGapByteLength', maxGapByteLength, 0, Number.MAX_SAFE_INTEGER);
    }
    const given = names === undefined ? undefined : [...names];
    return await this.#run(options, async (scope) => {
      const { signal } = scope;
      const located = await runAsync(this.#catalog.locateAll(given), signal);
      // A tensor and its alias are fetched once.
      const unique = new Map(located.map(([, one]) => [one.name, one]));
      const fetching = { onProgress, maxGapByteLength };
      const fetched = await this.#tensors.fetch([...unique.values()], fetching, scope);
      const tensors = new Map(fetched.map((tensor) => [tensor.name, tensor]));
      return new Map(located.map(([name, one]) => [name, tensors.get(one.name) as Tensor]));
    });
  }

  /**
   * All tensors shard by shard, or those named, one after the other, while the next ones are fetched: for models that
   * are larger than memory. Fetches as `readTensors` does, and retains no tensor. Leaving the loop ends the requests
   * under way.
   *
   * @throws TensorNotFoundError and FileClosedError, at once; in the loop as `readTensors`: for a tensor that no buffer
   *   can hold before any tensor is fetched
   *
   * @example
   * ```ts
   * const checkpoint = await open('https://models.example/model.safetensors');
   * for await (const [name, tensor] of checkpoint.stream({ names: ['norm.weight'] })) {
   *   console.log(name, tensor.data); // → norm.weight Float32Array(4) [ 0, 0, 0, 0 ]
   * }
   * ```
   */
  stream(options: StreamOptions = {}): AsyncGenerator<[string, Tensor], void, void> {
    requireStreamOptions(options);
    this.#requireOpen();
    const names = options.names === undefined ? undefined : [...options.names];
    for (const name of names ?? []) this.#catalog.place(name);
    return this.#stream(names, options);
  }

  async *#stream(
    names: readonly string[] | undefined,
    options: StreamOptions,
  ): AsyncGenerator<[string, Tensor], void, void> {
    const tensors = await this.#run(options, async ({ signal }) => {
      const located = await runAsync(this.#catalog.locateAll(names), signal);
      return located.map(([name, one]) => {
        return { name, byteLength: this.#tensors.requireFetchable(one) };
      });
    });
    const source = new RemoteStream(tensors, {
      concurrency: this.#tensors.concurrency,
      readTensors: (some, transfer) => this.readTensors(some, transfer),
      requireOpen: () => this.#requireOpen(),
    });
    yield* streamTensors(source, options);
  }

  /**
   * A part of a tensor, in separate memory, by the rules of `Tensor.slice`; compared with no digest. Fetches only the
   * part's runs of bytes; joins runs that are at most 64 KiB apart with the bytes between them. Options may follow the
   * index.
   *
   * @throws As `getTensor`, and as `Tensor.slice`
   *
   * @example
   * ```ts
   * const checkpoint = await open('https://models.example/model.safetensors');
   * const row = await checkpoint.getSlice('embed.weight', 1); // 8 bytes
   * console.log(row.toFloat32()); // → Float32Array(4) [ 1, 1.25, 1.5, 1.75 ]
   * ```
   */
  async getSlice(
    name: string,
    ...args:
      | SliceIndices
      | readonly [...index: SliceIndex[], options: RemoteReadOptions]
      | readonly [text: string, options: RemoteReadOptions]
  ): Promise<Tensor> {
    const [index, options] = splitOptions<RemoteReadOptions>(args);
    requireOptions(options, READ_OPTIONS);
    return await this.#fetchOne(name, options, (tensor, scope) =>
      this.#tensors.fetchSlice(tensor, index, progressOption(options), scope),
    );
  }

  /**
   * One rank's part of a tensor along a dimension, in separate memory, by the rules of
   * `Checkpoint.getPartition`; fetched as `getSlice` does.
   *
   * @throws As `getSlice`; SafetensorsError `SAFETENSORS_NOT_DIVISIBLE`
   */
  async getPartition(
    name: string,
    partition: Partition,
    options: RemoteReadOptions = {},
  ): Promise<Tensor> {
    requireOptions(options, READ_OPTIONS);
    return await this.#fetchOne(name, options, (tensor, scope) => {
      const { contents, entry, shard } = tensor;
      const file = contents.fileOf?.(entry) ?? (this.#tensors.shards[shard] as string);
      const context = { path: this.#tensors.pathOf(file), tensor: tensor.name };
      const index = planPartition(contents.shape(entry), partition, context);
      return this.#tensors.fetchSlice(tensor, index, progressOption(options), scope);
    });
  }

  /** Fetches a tensor or a part of it. */
  async #fetchOne(
    name: string,
    options: RemoteReadOptions,
    fetch: (found: LocatedTensor, scope: AbortController) => Promise<Tensor>,
  ): Promise<Tensor> {
    requireString('name', name);
    requireTransferOptions(options);
    return await this.#run(options, async (scope) => {
      return await fetch(await runAsync(this.#catalog.locate(name), scope.signal), scope);
    });
  }

  /** Does work until `close()` or the caller's signal ends it. */
  async #run<Result>(
    { signal }: RemoteCallOptions,
    work: (scope: AbortController) => Promise<Result>,
  ): Promise<Result> {
    requireSignal(signal);
    try {
      this.#tensors.files.requireOpen();
      const result = await withScope([this.#closing.signal, signal], work);
      // What was at hand needs no request that would have ended.
      this.#requireOpen();
      signal?.throwIfAborted();
      return result;
    } catch (error) {
      if (error instanceof FileChangedError) this.#isChanged = true;
      throw this.#tensors.withoutSecrets(error);
    }
  }

  /**
   * @internal The metadata of files and index, without requests.
   *
   * @throws TypeError `ERR_INVALID_STATE` when headers have not been fetched
   */
  sourceMetadata(): SourceMetadata {
    this.#requireOpen();
    const view = this.#view;
    if (view !== undefined) return viewMetadata(view.parts, () => view.base.sourceMetadata());
    return { files: runSync(this.#catalog.metadataOfFiles()), index: this.#tensors.files.index };
  }

  /** @internal The metadata of every file. */
  async metadataOfFiles(signal?: AbortSignal): Promise<(ReadonlyMap<string, string> | null)[]> {
    return await this.#run({ signal }, (scope) =>
      runAsync(this.#catalog.metadataOfFiles(), scope.signal),
    );
  }

  /** Facts for `JSON.stringify`, without tensors. Fetches nothing and never throws. */
  toJSON(): RemoteCheckpointJson {
    const { path, shards, ok } = this;
    if (!ok) return { path, shards, ok };
    const { size, metadata } = this;
    const values = metadata === null ? null : Object.fromEntries(metadata);
    return { path, shards, ok, size, metadata: values };
  }

  /** @internal For `console.log`. */
  [INSPECT](depth: number, options: object, inspect: Inspect): string {
    return showInfo('RemoteCheckpoint', this.toJSON(), depth, options, inspect);
  }

  /** Ends all requests under way; their calls reject with `SAFETENSORS_FILE_CLOSED`. */
  close(): void {
    this.#closing.abort(new FileClosedError({ path: this.path }));
    this.#tensors.close();
  }

  /** For `using checkpoint = await open(source)`: as `close()`, at the end of the block. */
  [Symbol.dispose](): void {
    this.close();
  }
}

function progressOption({ onProgress }: RemoteReadOptions): RemoteReadOptions {
  return { onProgress };
}
