/** An open checkpoint, of one file or of any number of shards. */

import { basename } from 'node:path';
import {
  requireBoolean,
  requireNames,
  requireOptions,
  requireSignal,
  requireString,
} from '../../errors/arguments.js';
import { FileClosedError, type SafetensorsError } from '../../errors/errors.js';
import { hintPythonMethods, PYTHON_METHODS } from '../../errors/python-methods.js';
import { uncloneable } from '../../errors/uncloneable.js';
import { INSPECT, type Inspect, showInfo } from '../../tensor/inspection.js';
import { type Partition, planPartition } from '../../tensor/partition.js';
import type { SliceIndices } from '../../tensor/slice.js';
import type { StorageKind } from '../../tensor/storage/storage.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import {
  requireTransferOptions,
  TRANSFER_OPTIONS,
  type TransferOptions,
} from '../../work/transfer.js';
import { call, runAsync, runSync } from '../../work/work.js';
import { CLOSE_OPTIONS, type CloseOptions, type FilePlace, SafetensorsFile } from '../file.js';
import type { CheckpointSummary } from '../hub/parameter-count.js';
import type { SourceMetadata } from '../shards/metadata.js';
import { siblingName } from '../shards/shard-paths.js';
import type { CheckpointCheck, VerificationReport } from '../shards/verification-report.js';
import { Catalog, type LocatedTensor } from '../source/catalog.js';
import type { PlainValue, RootKeys } from '../source/plain-value.js';
import { requireStreamOptions, type StreamOptions, streamTensors } from '../source/stream.js';
import {
  type ShardHeader,
  type SiblingFile,
  type TensorEntry,
  type TensorInfo,
  tensorInfo,
} from '../source/tensor-info.js';
import {
  LISTING_OPTIONS,
  type ListingOptions,
  type TensorSource,
} from '../source/tensor-source.js';
import { requireVerifyBytesOptions, type VerifyBytesOptions } from '../source/verify-options.js';
import { VIEW_OF, type ViewParts, viewMetadata } from '../source/view.js';
import type { DeclaringFile } from '../verification/verify-declared-hashes.js';
import { LazyShards } from './lazy-shards.js';
import { LocalStream } from './local-stream.js';
import { contentsOf, type Shard } from './shard.js';
import { readSibling } from './sibling-files.js';
import { placesIn, readPlaces, transferShards, worksIn } from './transfer-shards.js';
import { checksOf, declaringFiles, type VerifiableSource, verifyShards } from './verify.js';
import { ViewShard } from './view-shard.js';

/** The result of {@link Checkpoint.toJSON}; once `ok` is false only the first four. */
export interface CheckpointJson {
  /** As `Checkpoint.path`. */
  readonly path: string | undefined;
  /** As `Checkpoint.shards`. */
  readonly shards: readonly string[];
  /** As `Checkpoint.storage`. */
  readonly storage: StorageKind;
  /** As `Checkpoint.ok`. */
  readonly ok: boolean;
  /** As `Checkpoint.size`. */
  readonly size?: number;
  /** As `Checkpoint.metadata`, as an object. */
  readonly metadata?: Readonly<Record<string, string>> | null;
}

/** Formats of checkpoints. */
export type CheckpointFormat = 'safetensors' | 'torch' | 'numpy' | 'gguf' | 'dcp';

/** What a checkpoint is, besides its tensors. */
export interface CheckpointInfo {
  /** Errors for tensors of the index, or of the only file, that cannot be read. */
  readonly problems?: readonly SafetensorsError[];
  /** `'safetensors'` by default. */
  readonly format?: CheckpointFormat;
  /** As `Checkpoint.root`. */
  readonly root?: RootKeys | undefined;
  /** Returns `Checkpoint.extra`, which is decoded on first use. */
  readonly extra?: () => PlainValue | null;
  /** Of a view the checkpoint that it reads through. */
  readonly base?: Checkpoint;
  /** Of a view what it is made of. */
  readonly parts?: ViewParts;
  /** With `checkPath`: whether the paths of the files still lead to them. */
  readonly isCurrent?: () => boolean;
}

const UNCLONEABLE = uncloneable('A Checkpoint', 'post its path, and open that there');

/**
 * An open checkpoint: one file, its bytes, or the shards that an index names. `safeOpen` and `parse` open those of
 * safetensors, each shard when it is first needed; it stays open until `close()`. `open` also opens those of
 * other formats, whose tensors are ordinary ones, too: uncompressed, contiguous little-endian tensors are views of
 * the mapped file; all others are gathered, swapped or inflated when their bytes are first used.
 *
 * A writer that drops a tensor because another one shares its memory records `dropped: kept` in the
 * metadata. Every method that takes names accepts the dropped name as an alias of the kept tensor;
 * `keys()`, `size` and iteration leave aliases out.
 *
 * After `close()` all members but `path`, `format`, `root`, `extra`, `shards`, `ignoredFiles`, `storage`, `problems`,
 * `checks`, `ok` and `close()` itself throw `SAFETENSORS_FILE_CLOSED`; tensors that it returned stay valid.
 *
 * @example
 * ```ts
 * const checkpoint = safeOpen('my-model');
 * console.log(checkpoint.size, checkpoint.shards.length); // → 2 2
 * const norm = checkpoint.getTensor('norm.weight'); // opens the shard that has it
 * console.log(norm.data); // → Float32Array(4) [ 0, 0, 0, 0 ]
 * checkpoint.close();
 * ```
 */
export class Checkpoint implements TensorSource, VerifiableSource, Iterable<[string, Tensor]> {
  static {
    hintPythonMethods(Checkpoint, PYTHON_METHODS);
  }

  /** @internal */
  readonly uncloneable = UNCLONEABLE;
  readonly #shards: LazyShards<Shard>;
  #madeCatalog: Catalog | undefined;
  readonly #problems: readonly SafetensorsError[];
  readonly #checks: readonly CheckpointCheck[];
  readonly #format: CheckpointFormat;
  readonly #root: RootKeys | undefined;
  readonly #extra: () => PlainValue | null;
  /** Of a view the checkpoint that it reads through. */
  readonly #base: Checkpoint | undefined;
  readonly #parts: ViewParts | undefined;
  readonly #isCurrent: () => boolean;
  /** The only file, of safetensors, whose tensors are found without the catalog; undefined once closed. */
  #only: SafetensorsFile | undefined;

  /** Only functions that open checkpoints create them. */
  private constructor(shards: LazyShards<Shard>, info: CheckpointInfo) {
    const { problems = [], format = 'safetensors', root, extra = () => null } = info;
    const { base, parts, isCurrent = () => true } = info;
    this.#shards = shards;
    this.#base = base;
    this.#parts = parts;
    this.#isCurrent = isCurrent;
    this.#problems = Object.freeze([...problems]);
    this.#checks = base?.checks ?? Object.freeze(checksOf(shards));
    this.#format = format;
    this.#root = root && Object.freeze([...root]);
    this.#extra = extra;
    const first = shards.files.index === null ? shards.opened.get(0) : undefined;
    this.#only = first instanceof SafetensorsFile ? first : undefined;
  }

  /** @internal Takes ownership of the shards. */
  static of(shards: LazyShards<Shard>, info: CheckpointInfo = {}): Checkpoint {
    return new Checkpoint(shards, info);
  }

  /** @internal Makes a view, which reads through this checkpoint and does not own it. */
  [VIEW_OF](parts: ViewParts): Checkpoint {
    const shards = this.#shards;
    const shard = new ViewShard(this, () => this.#requireOpen(), parts);
    const { path, ...place } = shards.files;
    const files = { ...place, path, index: null, isIndexMissing: false, problems: [] };
    const { sibling } = parts;
    const siblings = sibling && {
      readSibling: (name: string) => call({ async: (signal) => sibling(name, signal) }),
    };
    const only = { ...files, ...siblings, shards: [{ name: basename(path), path }] };
    const shown = LazyShards.ofOpen(only, [[0, shard]]);
    const { format, root } = this;
    const { problems } = parts;
    const extra = this.#extra;
    return new Checkpoint(shown, { problems, format, root, extra, base: this, parts });
  }

  /** Throws FileClosedError after `close`, also of what a view reads through. */
  #requireOpen(): void {
    this.#shards.requireOpen();
    if (this.#base !== undefined) this.#base.#requireOpen();
  }

  /** @internal As `tensors`, on this thread. */
  entriesNow(): TensorEntry[] {
    this.#requireOpen();
    return runSync(this.#catalog.tensors());
  }

  /** @internal Of a dequantized view the method that the configuration names; else null. */
  get quantMethod(): string | null {
    return this.#parts?.quantMethod ?? null;
  }

  /** @internal The shards. */
  static shardsOf(checkpoint: Checkpoint): LazyShards<Shard> {
    return checkpoint.#shards;
  }

  /** True: tensors are at hand, and methods that read them return no promises. */
  get local(): true {
    return true;
  }

  /** The format of the files. */
  get format(): CheckpointFormat {
    return this.#format;
  }

  /**
   * The keys that lead to the state dict in a torch checkpoint, given or chosen; of several files those of the first,
   * and empty for the whole checkpoint. Undefined for other formats.
   */
  get root(): RootKeys | undefined {
    return this.#root;
  }

  /**
   * Everything in a torch checkpoint but its tensors, whatever the root: the epoch, hyperparameters, an optimizer's
   * state without its tensors. For several files a Map by shard name. In a GGUF file, the metadata as typed values by
   * key, arrays included. In a distributed checkpoint, the number of ranks, the pieces of each tensor, the names of
   * objects, and `isComplete`, which is null where the files do not show it. The same object on every call, also after
   * `close()`. Null for other formats.
   *
   * @example
   * ```ts
   * const extra = await (await open('model.ckpt')).extra();
   * if (extra instanceof Map) console.log(extra.get('epoch'), extra.get('flag')); // → 3 true
   * ```
   */
  async extra(): Promise<PlainValue | null> {
    return this.#extra();
  }

  /**
   * Path of the index, or of the only file, as it was given, as text; `descriptor 3` for a descriptor, undefined for
   * bytes.
   */
  get path(): string | undefined {
    return this.#shards.path;
  }

  /** Names of the shards, relative to the folder of `path`, in the order of the index. */
  get shards(): readonly string[] {
    return this.#base?.shards ?? [...this.#shards.names];
  }

  /**
   * Names of files in the same folder that another tool might open instead: a single file next to an
   * index, or next to a single file an index with missing shards. Empty for the path of a
   * file or an index.
   */
  get ignoredFiles(): readonly string[] {
    return this.#shards.files.ignoredFiles;
  }

  /**
   * Where bytes come from: `'memory'` for bytes; `'read'`, positioned reads into ordinary memory that is retained until
   * `close()`, if an open shard is read; otherwise `'mmap'`.
   */
  get storage(): StorageKind {
    return this.#shards.storage;
  }

  /**
   * Errors for tensors that cannot be read: PyTorch and NumPy tensors that safetensors cannot hold, with the code
   * `SAFETENSORS_UNSUPPORTED_TENSOR`, and in a view of `dequantize` weights of unknown schemes. Each has the name as
   * `tensor`, and `getTensor` of that name throws it. Empty for nearly all files; the same after `close()`.
   */
  get problems(): readonly SafetensorsError[] {
    return this.#problems;
  }

  /** The checks of `verify()`, except for hashes that files declare; the same after `close()`. */
  get checks(): readonly CheckpointCheck[] {
    return this.#checks;
  }

  /**
   * False once a tensor was rejected because its shard changed, and after `close()`; with `checkPath` also once a path
   * leads to another file.
   */
  get ok(): boolean {
    return this.#shards.ok && this.#isCurrent();
  }

  /** Number of tensors, without those of `problems`; by the index, if there is one. */
  get size(): number {
    return this.#catalog.size;
  }

  /** Length of all shards in bytes, headers included. Opens no shard, but asks the system about each. */
  byteLength(): number {
    this.#requireOpen();
    const { shards } = this.#shards.files;
    return shards.reduce((sum, _, shard) => sum + this.#shards.byteLength(shard), 0);
  }

  /**
   * The metadata of the index or of the single file; null without metadata. Values of an index that are not strings,
   * such as `total_size`, are their JSON text. Don't modify it.
   */
  get metadata(): ReadonlyMap<string, string> | null {
    return this.#catalog.metadata;
  }

  /**
   * The headers of all shards, in the order of `shards`: JSON, metadata and tensors of each, whatever the index
   * specifies. A new array of frozen objects; empty for torch and NumPy, which have no such headers. Opens shards
   * that are not open, and closes those again, without stalling the event loop.
   *
   * @throws FormatError when a shard is bad; `signal.reason`
   *
   * @example
   * ```ts
   * for (const { file, text, dataStart } of await safeOpen('my-model').headers()) {
   *   console.log(file, Object.keys(JSON.parse(text)), dataStart);
   * }
   * // → model-00001-of-00002.safetensors [ 'embed.weight' ] 77
   * // → model-00002-of-00002.safetensors [ 'norm.weight' ] 73
   * ```
   */
  async headers(options: ListingOptions = {}): Promise<ShardHeader[]> {
    requireOptions(options, LISTING_OPTIONS);
    requireSignal(options.signal);
    this.#requireOpen();
    return await this.#whileOpen(runAsync(this.#catalog.headers(), options.signal), options.signal);
  }

  /** Names sorted by their UTF-8 bytes; a new array. With an index it opens no shard. */
  keys(): string[] {
    return this.#catalog.keys();
  }

  /**
   * Names shard by shard, in the order of the tensors' bytes; a new array. Opens every shard.
   *
   * @throws FormatError `SAFETENSORS_INDEX_MISMATCH` when the index names a tensor that is not there
   */
  offsetKeys(): string[] {
    this.#requireOpen();
    return runSync(this.#catalog.offsetKeys());
  }

  /** Whether a tensor or an alias has that name; by the index, if any. */
  has(name: string): boolean {
    return this.#catalog.find(name) !== null;
  }

  /**
   * Dtype, shape and place in its shard of a tensor; a new frozen object. Opens that shard only.
   *
   * @throws TensorNotFoundError; FormatError `SAFETENSORS_UNSUPPORTED_TENSOR` for a tensor of `problems`;
   *   FormatError also when the shard is bad, and
   *   `SAFETENSORS_INDEX_MISMATCH` when the index names a tensor that is not there
   */
  info(name: string): TensorInfo {
    const { contents, entry } = this.#locate(name);
    return tensorInfo(contents, entry);
  }

  /**
   * The facts of all tensors, in the order of `offsetKeys`; a new array of frozen objects. Opens every
   * shard, without stalling the event loop.
   *
   * @throws FormatError when a shard is bad, and `SAFETENSORS_INDEX_MISMATCH` when the index names a tensor that is
   *   not there; `signal.reason`
   *
   * @example
   * ```ts
   * for (const { name, file, dataOffsets } of await safeOpen('my-model').tensors()) {
   *   console.log(name, file, dataOffsets);
   * }
   * // → embed.weight model-00001-of-00002.safetensors [ 0, 64 ]
   * // → norm.weight model-00002-of-00002.safetensors [ 0, 16 ]
   * ```
   */
  async tensors(options: ListingOptions = {}): Promise<TensorEntry[]> {
    requireOptions(options, LISTING_OPTIONS);
    requireSignal(options.signal);
    this.#requireOpen();
    return await this.#whileOpen(runAsync(this.#catalog.tensors(), options.signal), options.signal);
  }

  /**
   * A tensor, the same object on every call; for an alias the tensor that it refers to. Opens only its shard, and reads
   * nothing: its bytes are accessed on first use, without a copy unless `storage` is `'read'`. It stays valid after
   * `close()`, used or not, and retains its part of the file until it is collected.
   *
   * Checks that the file's size and modification time are still the same; if only the time differs, that the header
   * is. A file overwritten in place throws here instead of giving wrong numbers, unless the new content has the same
   * header. The check makes at most one system call per millisecond.
   *
   * @throws As `info`, and FileChangedError, FileClosedError
   *
   * @example
   * ```ts
   * const file = safeOpen('model.safetensors');
   * const tensor = file.getTensor('norm.weight'); // reads nothing
   * tensor.view(Float32Array).fill(1); // in memory only
   * console.log(file.getTensor('norm.weight').data); // → Float32Array(4) [ 1, 1, 1, 1 ]
   * ```
   */
  getTensor(name: string): Tensor {
    const own = this.#only?.findTensor(name);
    if (own !== undefined) return own;
    const place = this.#catalog.place(name);
    const file = this.#shards.open(place.shard);
    return file.findTensor(place.name) ?? this.#catalog.missing(place);
  }

  /** Several tensors by name, in the order given; all, as `offsetKeys` gives them, without an argument. */
  getTensors(names: Iterable<string> = this.offsetKeys()): Map<string, Tensor> {
    requireNames(names);
    return new Map(Array.from(names, (name) => [name, this.getTensor(name)]));
  }

  /** A part of a tensor: `getTensor(name).slice(...index)`. */
  getSlice(name: string, ...index: SliceIndices): Tensor {
    return this.getTensor(name).slice(...index);
  }

  /**
   * One rank's part of a tensor along a dimension, the first by default: part `rank` of `worldSize`
   * equal parts. Along the first dimension it is a view of the tensor's memory, and only its bytes are
   * read; along another one it is gathered into separate memory at once.
   *
   * The dimension's length must be divisible by `worldSize`. Packed 4- and 6-bit dtypes must be cut
   * on bytes.
   *
   * @throws SafetensorsError `SAFETENSORS_NOT_DIVISIBLE`, `SAFETENSORS_SLICE_OUT_OF_RANGE` without such a dimension,
   *   `SAFETENSORS_MISALIGNED_SLICE`
   *
   * @example
   * ```ts
   * const checkpoint = safeOpen('my-model');
   * const half = checkpoint.getPartition('embed.weight', { rank: 1, worldSize: 2 });
   * console.log(half.shape, half.toFloat32()[0]); // → [ 4, 4 ] 4
   * ```
   */
  getPartition(name: string, partition: Partition): Tensor {
    const tensor = this.getTensor(name);
    const { context } = TensorOf.sourceOf(tensor);
    return tensor.slice(...planPartition(tensor.shape, partition, context));
  }

  /** All tensors as `[name, tensor]`, shard by shard, each opened when its turn comes. */
  *[Symbol.iterator](): Generator<[string, Tensor], void, void> {
    this.#requireOpen();
    for (const name of this.#namesByShard()) yield [name, this.getTensor(name)];
  }

  /**
   * Fetches the bytes of the named tensors, of all by default, without blocking the event loop:
   * brings their pages into memory and into the page table, on at most two threads of the pool for
   * all files. Reads of bytes that fit into memory then don't wait for the disk, unless the system needs
   * the memory for something else meanwhile. Nothing is copied and nothing is pinned.
   *
   * Opens the shards of these tensors first, between other events, and fetches shard by shard. Tensors of other formats
   * that are gathered, swapped or inflated wait for their first use; with `storage: 'read'` that happens here.
   *
   * With `storage: 'read'` the tensors are read into the buffers that they keep until `close()`;
   * after `parse` there is nothing to do. Several prefetches may run at once.
   *
   * @throws As `info`; FileChangedError; FileClosedError also when it is closed
   *   before the end; with `storage: 'read'` `SAFETENSORS_TENSOR_TOO_LARGE` before anything is read,
   *   and `SAFETENSORS_OUT_OF_MEMORY`
   * @throws Error `EIO` when the disk cannot be read; `signal.reason` when it was aborted
   *
   * @example
   * ```ts
   * const file = safeOpen('model.safetensors');
   * await file.prefetch(['embed.weight'], { signal: AbortSignal.timeout(60_000) });
   * console.log(file.residency('embed.weight')); // → 64
   * ```
   */
  async prefetch(names?: Iterable<string>, options: TransferOptions = {}): Promise<void> {
    requireOptions(options, TRANSFER_OPTIONS);
    requireTransferOptions(options);
    const wanted = listOf(names);
    this.#requireOpen();
    await this.#whileOpen(this.#prefetch(wanted, options), options.signal);
  }

  async #prefetch(wanted: readonly string[] | undefined, options: TransferOptions): Promise<void> {
    const only = this.#onlyWith(wanted);
    if (only !== undefined) return await only.prefetch(wanted, options);
    const works = await runAsync(worksIn(this.#shards, this.#catalog, wanted), options.signal);
    const check = (): void => this.#requireOpen();
    await transferShards(works, options, check, (work, shardOptions) =>
      work.file.prefetch(work.names, shardOptions),
    );
  }

  /**
   * All tensors shard by shard, or those named, one after the other, while the next ones are fetched without blocking
   * the event loop: to read a file that is not in memory as fast as the disk gives it.
   *
   * The tensors are those of `getTensor`. With `storage: 'read'` they are those of `readTensors` instead, in private
   * memory that the checkpoint does not retain. Leaving the loop ends pending fetches. Without names, a shard is opened
   * when the loop reaches it.
   *
   * @throws As `info`, and FileClosedError, at once; in the loop as `prefetch`
   *
   * @example
   * ```ts
   * const file = safeOpen('model.safetensors');
   * for await (const [name, tensor] of file.stream({ names: ['norm.weight'] })) {
   *   console.log(name, tensor.data); // → norm.weight Float32Array(4) [ 0, 0, 0, 0 ]
   * }
   * ```
   */
  stream(options: StreamOptions = {}): AsyncGenerator<[string, Tensor], void, void> {
    requireStreamOptions(options);
    this.#requireOpen();
    const names = options.names === undefined ? undefined : [...options.names];
    for (const name of names ?? []) this.info(name);
    const source = new LocalStream(this, {
      names,
      allNames: this.#namesByShard(),
      reuse: options.reuse ?? false,
      isCopied: (name) => this.#locate(name).file.storage === 'read',
      requireOpen: () => this.#requireOpen(),
    });
    return streamTensors(source, options);
  }

  /**
   * How many bytes of the shards, or of one tensor, are in memory now: in the page cache, or in pages
   * that were written to. Reading the rest waits for the disk. Asks the system about every page, which
   * takes about 12 ms per gigabyte. Without a name it opens every shard.
   *
   * Null where the system gives no answer: on Linux for a file that this user neither owns nor may write to, on other
   * systems always, and for a file that is not mapped.
   *
   * @throws As `info`, and FileChangedError, FileClosedError
   */
  residency(name?: string): number | null {
    if (name !== undefined) {
      const { file, name: ownName } = this.#locate(name);
      return file.residency(ownName);
    }
    this.#requireOpen();
    let sum = 0;
    for (const file of this.#shards) {
      const bytes = file.residency();
      if (bytes === null) return null;
      sum += bytes;
    }
    return sum;
  }

  /**
   * Reads the named tensors, all by default, into ordinary memory without blocking the event loop, by
   * a few large reads at a time: for file systems on which mappings are slow (network, FUSE), or to
   * be independent of the file. In the order given; all of them as `offsetKeys` without an argument.
   *
   * Every call reads again, into buffers that only the caller owns. `close()` does not affect them, not even during the
   * read; `close({ detach: true })` ends the read before the next of several shards. After `parse` they are copies of
   * the bytes.
   *
   * @throws As `info`, and FileClosedError; `SAFETENSORS_TENSOR_TOO_LARGE` before anything is
   *   read; `SAFETENSORS_OUT_OF_MEMORY`; FileChangedError also when size or modification time change
   *   meanwhile
   * @throws Error Node's own `EIO` and the like; `signal.reason` when it was aborted
   *
   * @example
   * ```ts
   * const file = safeOpen('model.safetensors');
   * const tensors = await file.readTensors(['norm.weight']);
   * file.close();
   * console.log(tensors.get('norm.weight')?.data); // → Float32Array(4) [ 0, 0, 0, 0 ]
   * ```
   */
  async readTensors(
    names?: Iterable<string>,
    options: TransferOptions = {},
  ): Promise<Map<string, Tensor>> {
    requireOptions(options, TRANSFER_OPTIONS);
    requireTransferOptions(options);
    const wanted = listOf(names);
    this.#requireOpen();
    const only = this.#onlyWith(wanted);
    if (only !== undefined) return await only.readTensors(wanted, options);
    return await this.#shards.use(async (shards) => {
      const catalog = new Catalog(shards, this.#problems);
      const places = await runAsync(placesIn(shards, catalog, wanted), options.signal);
      return await readPlaces(places, options);
    });
  }

  /**
   * Makes the checks that opening leaves out: the header of every shard, that the index and the shards name the same
   * tensors, each once, and `total_size`. Opens every shard and keeps it open, so that later reads are of checked
   * files. Reads files that declare hashes, and compares these: `files` of the report lists the tensors that were
   * compared.
   *
   * Opening a PyTorch or NumPy file already checks its headers and index. Here all bytes of the archive's storages or
   * arrays are read, and their CRC-32 is compared with the archive's. Using tensors does not compare checksums, except
   * of deflated entries. `headersOnly: true` reads no tensors, of any format.
   *
   * @returns the report: `ok` is false if there are problems, such as a file that has changed or cannot be read
   *
   * @throws FileClosedError; Error Node's own `EMFILE` and the like; `signal.reason`
   *
   * @example
   * ```ts
   * const checkpoint = safeOpen('my-model');
   * const { ok, checks } = await checkpoint.verify();
   * console.log(ok, checks); // → true [ 'headers', 'index' ]
   * ```
   */
  async verify(options: VerifyBytesOptions = {}): Promise<VerificationReport> {
    requireVerifyBytesOptions(options);
    this.#requireOpen();
    const report = this.#base?.verify(options) ?? verifyShards(this.#shards, options);
    return await this.#whileOpen(report, options.signal);
  }

  /** @internal The safetensors files, all of which are open. */
  declaringFiles(): readonly DeclaringFile[] {
    return declaringFiles(this.#shards);
  }

  /**
   * Tensors, parameters and bytes per dtype and by shard, counted as the Hub does: by the headers of all shards, and
   * the `config.json` next to them if there is one. Opens shards that are not open, and closes those again, without
   * stalling the event loop.
   *
   * @throws FormatError when a shard is bad; FileChangedError, FileClosedError; `signal.reason`
   *
   * @example
   * ```ts
   * const { parameters, dtypes } = await safeOpen('my-model').summary();
   * console.log(parameters, dtypes.get('BF16')?.byteLength); // → 36 64
   * ```
   */
  async summary(options: ListingOptions = {}): Promise<CheckpointSummary> {
    requireOptions(options, LISTING_OPTIONS);
    requireSignal(options.signal);
    this.#requireOpen();
    const { summarize } = await import('../source/summary.js');
    return await this.#whileOpen(runAsync(summarize(this.#shards), options.signal), options.signal);
  }

  /**
   * A small file of the model, such as `config.json`: from the folder of `path`, or from the same folder of an archive.
   * A new object on every call; undefined when there is no such file, and for descriptors and parsed bytes.
   *
   * @param name relative to the folder; `text_encoder/config.json` is below it
   * @throws FormatError `SAFETENSORS_UNSAFE_SHARD_NAME` for a name or a link that leads out of the folder;
   *   FileClosedError; Error Node's own `EACCES` and the like; `signal.reason`
   *
   * @example
   * ```ts
   * const config = await safeOpen('my-model').sibling('config.json');
   * console.log(config && JSON.parse(new TextDecoder().decode(config.bytes)).model_type); // → example
   * ```
   */
  async sibling(name: string, options: ListingOptions = {}): Promise<SiblingFile | undefined> {
    requireString('name', name);
    requireOptions(options, LISTING_OPTIONS);
    requireSignal(options.signal);
    this.#requireOpen();
    const inner = siblingName(name, this.path);
    const read = runAsync(readSibling(this.#shards.files, inner), options.signal);
    return await this.#whileOpen(read, options.signal);
  }

  /** @internal The place of a shard within an archive; undefined for files by themselves. */
  placeOf(name: string): FilePlace | undefined {
    const file = this.#shards.opened.get(this.shards.indexOf(name));
    return file instanceof SafetensorsFile ? SafetensorsFile.placeOf(file) : undefined;
  }

  /** @internal The metadata of files and index, on this thread; opens all shards. */
  sourceMetadata(): SourceMetadata {
    this.#requireOpen();
    const [base, parts] = [this.#base, this.#parts];
    if (base !== undefined && parts !== undefined) {
      return viewMetadata(parts, () => base.sourceMetadata());
    }
    return { files: runSync(this.#catalog.metadataOfFiles()), index: this.#shards.index };
  }

  /** @internal The metadata of every file. */
  async metadataOfFiles(signal?: AbortSignal): Promise<(ReadonlyMap<string, string> | null)[]> {
    requireSignal(signal);
    this.#requireOpen();
    return await runAsync(this.#catalog.metadataOfFiles(), signal);
  }

  /** Waits for work that `close()` and an abort end, even if all that is left is to resolve the promise. */
  async #whileOpen<Result>(
    work: Promise<Result>,
    signal: AbortSignal | undefined,
  ): Promise<Result> {
    try {
      const result = await work;
      this.#requireOpen();
      signal?.throwIfAborted();
      return result;
    } catch (error) {
      // A shard that was closed under the work names itself.
      if (error instanceof FileClosedError) this.#requireOpen();
      throw error;
    }
  }

  /** Created on first use: a single file may never need one. */
  get #catalog(): Catalog {
    this.#madeCatalog ??= new Catalog(this.#shards, this.#problems);
    return this.#madeCatalog;
  }

  /** Opens the shard of a tensor or an alias. */
  #locate(wanted: string): LocatedTensor & { readonly file: Shard } {
    const place = this.#catalog.place(wanted);
    const { shard, name } = place;
    const file = this.#shards.open(shard);
    const contents = contentsOf(file);
    return { shard, name, file, contents, entry: this.#catalog.entryIn(place, contents) };
  }

  /** The only file, if it has all of these tensors itself, not as aliases. */
  #onlyWith(names: readonly string[] | undefined): SafetensorsFile | undefined {
    const only = this.#only;
    return only !== undefined && (names ?? []).every((name) => only.has(name)) ? only : undefined;
  }

  /** Names as `offsetKeys` gives them; each shard is opened when its turn comes. */
  *#namesByShard(): Generator<string, void, void> {
    for (const shard of this.#shards.names.keys()) yield* runSync(this.#catalog.namesIn(shard));
  }

  /** The checkpoint's facts for `JSON.stringify`, without tensors. Opens no shard, and never throws. */
  toJSON(): CheckpointJson {
    const { path, shards, storage, ok } = this;
    if (!ok) return { path, shards, storage, ok };
    const { size, metadata } = this;
    return {
      path,
      shards,
      storage,
      ok,
      size,
      metadata: metadata === null ? null : Object.fromEntries(metadata),
    };
  }

  /** @internal For `console.log`. */
  [INSPECT](depth: number, options: object, inspect: Inspect): string {
    const { length } = this.#problems;
    const facts = length === 0 ? this.toJSON() : { ...this.toJSON(), problems: length };
    return showInfo('Checkpoint', facts, depth, options, inspect);
  }

  /**
   * Closes every shard; closing twice is harmless, the first call counts. Exposed tensors, their slices and views stay
   * valid until they are collected, and so does the mapping. Pending `readTensors` calls finish; all other pending
   * calls reject with `SAFETENSORS_FILE_CLOSED`. With `detach` tensors and `readTensors` end, too, and everything is
   * freed now.
   *
   * Looks for changes of the files a last time; tensors of a mapped file notice only truncation after that. With
   * `storage: 'read'` the descriptor stays open until all tensors have their bytes or are collected. After `parse`
   * the memory is the caller's: `detach` ends nothing there.
   *
   * @example
   * ```ts
   * const file = safeOpen('model.safetensors');
   * const tensor = file.getTensor('norm.weight');
   * file.close();
   * console.log(tensor.data); // → Float32Array(4) [ 0, 0, 0, 0 ]
   * ```
   */
  close(options: CloseOptions = {}): void {
    requireOptions(options, CLOSE_OPTIONS);
    const { detach = false } = options;
    requireBoolean('detach', detach);
    this.#only = undefined;
    this.#shards.close(options);
  }

  /** For `using checkpoint = safeOpen(path)`: as `close()`, at the end of the block. */
  [Symbol.dispose](): void {
    this.close();
  }
}

/** Copies the names, because work between other events must not see later changes. */
function listOf(names: Iterable<string> | undefined): string[] | undefined {
  if (names !== undefined) requireNames(names);
  return names && [...names];
}
