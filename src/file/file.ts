/** An open safetensors file: names, header info, and tensors created on first use. */

import { basename } from 'node:path';
import {
  type OptionNames,
  requireBoolean,
  requireNames,
  requireOptions,
  requireSignal,
  requireString,
} from '../errors/arguments.js';
import { TensorNotFoundError } from '../errors/errors.js';
import { nearNames } from '../errors/near-names.js';
import { hintPythonMethods, PYTHON_METHODS } from '../errors/python-methods.js';
import { uncloneable } from '../errors/uncloneable.js';
import type { Header } from '../header/header.js';
import { claimedSum, SUMS_KEY } from '../header/tensor-sums.js';
import { INSPECT, type Inspect, showFacts } from '../tensor/inspection.js';
import type { SliceIndices } from '../tensor/slice.js';
import { declareDigests } from '../tensor/storage/declared-digests.js';
import {
  requireOpen,
  type Storage,
  type StorageKind,
  verifyOpen,
} from '../tensor/storage/storage.js';
import { StorageRange } from '../tensor/storage-range.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import type { FileRange } from '../work/byte-ranges.js';
import { TRANSFER_OPTIONS, type TransferOptions } from '../work/transfer.js';
import { runAsync } from '../work/work.js';
import { readBeside } from './json-beside.js';
import { prefetch } from './prefetch.js';
import { readTensors } from './read-tensors.js';
import {
  type FileBeside,
  type FileFacts,
  fileFacts,
  handleFacts,
  type TensorEntry,
  type TensorInfo,
  tensorEntries,
  tensorInfo,
} from './source/facts.js';
import { LISTING_OPTIONS, type ListingOptions, type TensorSource } from './source/tensor-source.js';
import {
  requireStreamOptions,
  type StreamOptions,
  type StreamSource,
  streamTensors,
} from './stream.js';

/** Options of {@link SafetensorsFile.close}. */
export interface CloseOptions {
  /**
   * Ends the tensors, too: detaches every buffer that was handed out, and frees memory and descriptor at once instead
   * of when the last tensor or view is collected. The first detached buffer in a process makes all its loops over
   * typed arrays slower, until it ends (1.05 to 1.9 times, depending on the version of Node).
   */
  readonly detach?: boolean | undefined;
}

/** Names of the options. */
export const CLOSE_OPTIONS: OptionNames<CloseOptions> = { detach: true };

/** The parts of an open file. */
interface FileContent {
  readonly header: Header;
  readonly storage: Storage;
  /** Where the file begins in its storage: not at 0 within an archive. */
  readonly begin: number;
}

/** A file within another one: the bytes [begin, end) of that. */
export interface FilePlace {
  readonly path: string;
  readonly begin: number;
  readonly end: number;
}

const UNCLONEABLE = uncloneable('A SafetensorsFile', 'post its path, and open that there');

/**
 * An open file, made by `safeOpen` or `parse`.
 *
 * After `close()` all members but `path`, `storage`, `ok` and `close()` itself throw `SAFETENSORS_FILE_CLOSED`;
 * tensors that were handed out stay valid.
 *
 * @example
 * ```ts
 * const file = safeOpen('model.safetensors');
 * for (const [name, tensor] of file) console.log(name, tensor.dtype, tensor.shape);
 * // → norm.weight F32 [ 4 ]
 * // → embed.weight BF16 [ 8, 4 ]
 * console.log(file.metadata?.get('format')); // → pt
 * file.close();
 * ```
 */
export class SafetensorsFile implements TensorSource, Iterable<[string, Tensor]> {
  static {
    hintPythonMethods(SafetensorsFile, PYTHON_METHODS);
  }

  /** @internal */
  readonly uncloneable = UNCLONEABLE;
  readonly #storage: Storage;
  readonly #header: Header;
  /** Where the file begins in its storage: not at 0 within an archive. */
  readonly #begin: number;
  /** False for a descriptor, which leads to no folder. */
  readonly #isPlaced: boolean;
  // Strong references: every call returns the same tensor with the same buffer, so writes to it stay.
  readonly #tensors = new Map<string, Tensor>();

  private constructor(storage: Storage, header: Header, begin: number, isPlaced: boolean) {
    this.#storage = storage;
    this.#header = header;
    this.#begin = begin;
    this.#isPlaced = isPlaced;
    if (header.metadata?.has(SUMS_KEY) !== true) return;
    const start = begin + header.dataStart;
    const { path } = storage;
    // Refers to the header, not to this file, whose tensors could be collected.
    declareDigests(storage, (tensor, from, to) => {
      const entry = header.find(tensor);
      const isWhole =
        entry !== -1 && header.begin(entry) === from - start && header.end(entry) === to - start;
      if (!isWhole) return undefined;
      const context = { path, tensor };
      const sum = claimedSum(header, entry, context);
      return sum === undefined ? undefined : { sum, context };
    });
  }

  /** @internal Takes ownership of the storage, in which the file begins at `begin`. */
  static of(storage: Storage, header: Header, begin = 0, isPlaced = true): SafetensorsFile {
    return new SafetensorsFile(storage, header, begin, isPlaced);
  }

  /** @internal The file's parts, if it has not changed; the file keeps owning them. */
  static contentOf(file: SafetensorsFile): FileContent {
    verifyOpen(file.#storage);
    return { header: file.#header, storage: file.#storage, begin: file.#begin };
  }

  /** @internal Its place within an archive; undefined for a file by itself. */
  static placeOf(file: SafetensorsFile): FilePlace | undefined {
    const begin = file.#begin;
    const { path } = file;
    return begin === 0 || path === undefined
      ? undefined
      : { path, begin, end: begin + file.byteLength };
  }

  /** @internal Its header, whether the file has changed or not. */
  static headerOf(file: SafetensorsFile): Header {
    return file.#openHeader();
  }

  /** The path as it was given, as text; `descriptor 3` for a descriptor, undefined for parsed bytes. */
  get path(): string | undefined {
    return this.#storage.path;
  }

  /**
   * Where bytes come from: `'mmap'`; `'read'`, positioned reads into ordinary memory that is kept until
   * `close()`; or `'memory'` after `parse`.
   */
  get storage(): StorageKind {
    return this.#storage.kind;
  }

  /** False once a tensor was refused because the file changed, and after `close()`. */
  get ok(): boolean {
    return this.#storage.ok && !this.#storage.closed;
  }

  /** Number of tensors. */
  get size(): number {
    return this.#openHeader().size;
  }

  /** Length of the whole file in bytes, header included. */
  get byteLength(): number {
    return this.#openHeader().dataStart + this.#header.dataByteLength;
  }

  /**
   * Where the tensor data begins in the file, in bytes. A tensor's place is this plus its `dataOffsets`,
   * for programs that read the file by position, such as the external data of an ONNX model.
   *
   * @example
   * ```ts
   * const file = safeOpen('model.safetensors');
   * const place = file.dataStart + file.info('norm.weight').dataOffsets[0];
   * console.log(place < file.byteLength); // → true
   * ```
   */
  get dataStart(): number {
    return this.#openHeader().dataStart;
  }

  /**
   * The header's JSON as it stands in the file, with the spaces at its end; decoded on every call.
   *
   * @example
   * ```ts
   * const file = safeOpen('model.safetensors');
   * console.log(Object.keys(JSON.parse(file.headerText)).length); // → 3
   * ```
   */
  get headerText(): string {
    return this.#openHeader().text;
  }

  /** The header's `__metadata__`; null without metadata. Don't modify it. */
  get metadata(): ReadonlyMap<string, string> | null {
    return this.#openHeader().metadata;
  }

  /** Names sorted by their UTF-8 bytes, the order of the reference; a new array. */
  keys(): string[] {
    return this.#openHeader().sortedNames();
  }

  /** Names in the order of the tensors' bytes in the file; a new array. */
  offsetKeys(): string[] {
    return this.#openHeader().names();
  }

  /** Whether a tensor has that name. */
  has(name: string): boolean {
    return this.#find(name) >= 0;
  }

  /**
   * Dtype, shape and place of a tensor, from the header alone; a new frozen object.
   *
   * @throws TensorNotFoundError
   *
   * @example
   * ```ts
   * const { dtype, shape, dataOffsets } = safeOpen('model.safetensors').info('embed.weight');
   * console.log(dtype, shape, dataOffsets); // → BF16 [ 8, 4 ] [ 16, 80 ]
   * ```
   */
  info(name: string): TensorInfo {
    return tensorInfo(this.#header, this.#require(name));
  }

  /**
   * The facts of all tensors, in file order; a new array of new frozen objects. Reads nothing of the file.
   *
   * @example
   * ```ts
   * const [first] = await safeOpen('model.safetensors').tensors();
   * console.log(first?.name, first?.file, first?.byteLength); // → norm.weight model.safetensors 16
   * ```
   */
  async tensors(options: ListingOptions = {}): Promise<TensorEntry[]> {
    requireOptions(options, LISTING_OPTIONS);
    requireSignal(options.signal);
    const header = this.#openHeader();
    const entries = tensorEntries(header, basename(this.path ?? ''), this.#entries(undefined));
    return await runAsync(entries, options.signal);
  }

  /**
   * A tensor of the file, the same object on every call. Reads nothing: its bytes are reached on first use, without a
   * copy unless `storage` is `'read'`. It stays valid after `close()`, used or not, and holds its part of the file
   * until it is collected.
   *
   * Checks that the file's size and modification time are still the same; if only the time differs, that the header
   * is. A file overwritten in place throws here instead of giving wrong numbers, unless the new content has the same
   * header. The system is asked at most once per millisecond.
   *
   * @throws TensorNotFoundError, FileChangedError, FileClosedError
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
    requireOpen(this.#storage);
    this.#storage.verifyOften();
    return this.#tensors.get(name) ?? this.#makeTensor(this.#require(name), name);
  }

  /** Several tensors by name, in the order given; all of them in file order without an argument. */
  getTensors(names?: Iterable<string>): Map<string, Tensor> {
    if (names === undefined) return this.#allTensors();
    requireNames(names);
    const tensors = new Map<string, Tensor>();
    for (const name of names) tensors.set(name, this.getTensor(name));
    return tensors;
  }

  #allTensors(): Map<string, Tensor> {
    const names = this.offsetKeys();
    this.#storage.verifyOften();
    return new Map(names.map((name, entry) => [name, this.#tensor(entry, name)]));
  }

  /**
   * A part of a tensor: `getTensor(name).slice(...index)`.
   *
   * @example
   * ```ts
   * const file = safeOpen('model.safetensors');
   * const row = file.getSlice('embed.weight', 1);
   * console.log(row.toFloat32()); // → Float32Array(4) [ 1, 1.25, 1.5, 1.75 ]
   * ```
   */
  getSlice(name: string, ...index: SliceIndices): Tensor {
    return this.getTensor(name).slice(...index);
  }

  /** All tensors as `[name, tensor]`, in file order. */
  *[Symbol.iterator](): Generator<[string, Tensor], void, void> {
    for (const [entry, name] of this.offsetKeys().entries()) {
      requireOpen(this.#storage);
      this.#storage.verifyOften();
      yield [name, this.#tensor(entry, name)];
    }
  }

  /**
   * Fetches the bytes of the named tensors, of all by default, without blocking the event loop:
   * brings their pages into memory and into the page table, on at most two threads of the pool for
   * all files. Reads of bytes that fit into memory then don't wait for the disk, unless the system needs
   * the memory for something else meanwhile. Nothing is copied and nothing is pinned.
   *
   * With `storage: 'read'` the tensors are read into the buffers that they keep until `close()`;
   * after `parse` there is nothing to do. Several prefetches may run at once.
   *
   * @throws TensorNotFoundError, FileChangedError; FileClosedError also when the file is closed
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
    const entries = this.#entries(names);
    // The format has no holes between tensors.
    const { dataStart, dataByteLength } = this.#header;
    const all = { position: this.#begin + dataStart, byteLength: dataByteLength };
    const ranges = names === undefined ? [all] : entries.map((entry) => this.#range(entry));
    const sources = (): StorageRange[] =>
      entries.map((entry) => TensorOf.sourceOf(this.#tensor(entry, this.#header.name(entry))));
    await prefetch(this.#storage, ranges, sources, options);
  }

  /**
   * All tensors, or those named, one after the other, while the next ones are fetched without blocking
   * the event loop: to read a file that is not in memory as fast as the disk gives it.
   *
   * The tensors are those of `getTensor`. With `storage: 'read'` they are those of `readTensors` instead, with
   * memory of their own that the file does not keep. Leaving the loop ends the fetches under way.
   *
   * @throws TensorNotFoundError, FileClosedError, at once; in the loop as `prefetch`
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
    const names = options.names === undefined ? this.offsetKeys() : [...options.names];
    if (options.names !== undefined) for (const name of names) this.#require(name);
    const byteLength = (name: string): number => this.#range(this.#require(name)).byteLength;
    const source: StreamSource = {
      byteLength,
      isCopied: () => this.storage === 'read',
      getTensor: (name) => this.getTensor(name),
      prefetch: (some, transfer) => this.prefetch(some, transfer),
      readTensors: (some, transfer) => this.readTensors(some, transfer),
    };
    return streamTensors(source, names, options);
  }

  /**
   * How many bytes of the file, or of one tensor, are in memory now: in the page cache, or in pages
   * that were written to. Reading the rest waits for the disk. Asks the system about every page, which
   * takes about 12 ms per gigabyte.
   *
   * Null where the system gives no answer: on Linux for a file that this user neither owns nor may write to, on other
   * systems always, and for a file that is not mapped.
   *
   * @throws TensorNotFoundError, FileChangedError, FileClosedError
   */
  residency(name?: string): number | null {
    verifyOpen(this.#storage);
    if (name === undefined) {
      return this.#storage.residentBytes(this.#begin, this.#begin + this.byteLength);
    }
    const { position, byteLength } = this.#range(this.#require(name));
    return this.#storage.residentBytes(position, position + byteLength);
  }

  /**
   * Reads the named tensors, all by default, into ordinary memory without blocking the event loop, by
   * a few large reads at a time: for file systems on which mappings are slow (network, FUSE), or to
   * be independent of the file. In the order given; all of them in file order without an argument.
   *
   * Every call reads again, into buffers that belong to the caller alone. `close()` does not affect
   * them, not even while it reads. After `parse` they are copies of the bytes.
   *
   * @throws TensorNotFoundError, FileClosedError; `SAFETENSORS_TENSOR_TOO_LARGE` before anything is
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
    const header = this.#header;
    const entries = this.#entries(names).map((entry) => ({
      name: header.name(entry),
      dtype: header.dtype(entry),
      shape: header.shape(entry),
      ...this.#range(entry),
    }));
    return readTensors(this.#storage, entries, options);
  }

  /**
   * Closes the handle; closing twice is harmless, the first call counts. Tensors that were handed out, used or not,
   * their slices and views, and work under way stay valid until they are collected or done, and the mapping with
   * them. With `detach` they end, and everything is freed now.
   *
   * Looks for changes of the file a last time; tensors of a mapped file notice only truncation after that. With
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
    this.#storage.close(detach);
    this.#tensors.clear();
  }

  /** For `using file = safeOpen(path)`: as `close()`, at the end of the block. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** The file's facts for `JSON.stringify`, without tensors and data. Does not throw after `close()`. */
  toJSON(): FileFacts {
    return this.#storage.closed ? handleFacts(this) : fileFacts(this);
  }

  /** @internal For `console.log`. */
  [INSPECT](depth: number, options: object, inspect: Inspect): string {
    return showFacts('SafetensorsFile', this.toJSON(), depth, options, inspect);
  }

  /** @internal A small file in the folder of `path`; undefined when there is none. */
  async readBeside(name: string, signal?: AbortSignal): Promise<FileBeside | undefined> {
    requireString('name', name);
    requireSignal(signal);
    requireOpen(this.#storage);
    const { path } = this;
    const isPlaced = path !== undefined && this.#isPlaced;
    return isPlaced ? await runAsync(readBeside({ path }, name), signal) : undefined;
  }

  #openHeader(): Header {
    requireOpen(this.#storage);
    return this.#header;
  }

  #find(name: string): number {
    requireString('name', name);
    return this.#openHeader().find(name);
  }

  #require(name: string): number {
    const entry = this.#find(name);
    if (entry >= 0) return entry;
    throw new TensorNotFoundError(name, nearNames(name, this.#names()), { path: this.path });
  }

  /** Returns the entries of the names in the order given, each once; all entries without names. */
  #entries(names: Iterable<string> | undefined): number[] {
    const { size } = this.#openHeader();
    if (names === undefined) return Array.from({ length: size }, (_, entry) => entry);
    requireNames(names);
    return [...new Set(Array.from(names, (name) => this.#require(name)))];
  }

  /** Returns the place of a tensor's bytes in the file. */
  #range(entry: number): FileRange {
    const { dataStart } = this.#header;
    const begin = this.#header.begin(entry);
    const position = this.#begin + dataStart + begin;
    return { position, byteLength: this.#header.end(entry) - begin };
  }

  #tensor(entry: number, name: string): Tensor {
    return this.#tensors.get(name) ?? this.#makeTensor(entry, name);
  }

  *#names(): Generator<string, void, void> {
    for (let entry = 0; entry < this.#header.size; entry++) yield this.#header.name(entry);
  }

  #makeTensor(entry: number, name: string): Tensor {
    const header = this.#header;
    const { position, byteLength } = this.#range(entry);
    const source = new StorageRange(this.#storage, name, position, position + byteLength);
    const tensor = TensorOf.ofEntry(header, entry, name, source);
    this.#tensors.set(name, tensor);
    return tensor;
  }
}
