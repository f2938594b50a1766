/** An open safetensors file: names, header info, and tensors created on first use. */

import {
  type OptionNames,
  requireBoolean,
  requireNames,
  requireOptions,
  requireString,
} from '../errors/arguments.js';
import { tensorNotFound } from '../errors/tensor-not-found.js';
import type { Header } from '../header/header.js';
import { DIGESTS_KEY, digestOf } from '../header/tensor-digests.js';
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
import { prefetch } from './prefetch.js';
import { readTensors } from './read-tensors.js';
import { type TensorInfo, tensorInfo } from './source/tensor-info.js';

/** Options of `Checkpoint.close`. */
export interface CloseOptions {
  /**
   * Ends the tensors, too: detaches every buffer that was exposed, and frees memory and descriptor at once instead
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

/**
 * An open safetensors file, a shard of a checkpoint. After `close()` all members but `path`, `storage`, `ok` and
 * `close()` itself throw `SAFETENSORS_FILE_CLOSED`; exposed tensors stay valid.
 */
export class SafetensorsFile implements Iterable<[string, Tensor]> {
  readonly #storage: Storage;
  readonly #header: Header;
  /** Where the file begins in its storage: not at 0 within an archive. */
  readonly #begin: number;
  // Strong references: every call returns the same tensor with the same buffer, so writes to it stay.
  readonly #tensors = new Map<string, Tensor>();

  private constructor(storage: Storage, header: Header, begin: number) {
    this.#storage = storage;
    this.#header = header;
    this.#begin = begin;
    if (header.metadata?.has(DIGESTS_KEY) !== true) return;
    const start = begin + header.dataStart;
    const { path } = storage;
    // Refers to the header, not to this file, whose tensors could be collected.
    declareDigests(storage, (tensor, from, to) => {
      const entry = header.find(tensor);
      const isWhole =
        entry !== -1 && header.begin(entry) === from - start && header.end(entry) === to - start;
      if (!isWhole) return undefined;
      const context = { path, tensor };
      const hex = digestOf(header, entry, context);
      return hex === undefined ? undefined : { hex, context };
    });
  }

  /** @internal Takes ownership of the storage, in which the file begins at `begin`. */
  static of(storage: Storage, header: Header, begin = 0): SafetensorsFile {
    return new SafetensorsFile(storage, header, begin);
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

  /** Length of the whole file in bytes, header included. */
  get byteLength(): number {
    return this.#openHeader().dataStart + this.#header.dataByteLength;
  }

  /** Where the tensor data begins in the file, in bytes. `dataOffsets` count from there. */
  get dataStart(): number {
    return this.#openHeader().dataStart;
  }

  /** The header's `__metadata__`; null without metadata. Don't modify it. */
  get metadata(): ReadonlyMap<string, string> | null {
    return this.#openHeader().metadata;
  }

  /** Names in the order of the tensors' bytes in the file; a new array. */
  offsetKeys(): string[] {
    return this.#openHeader().names();
  }

  /** Whether a tensor has that name. */
  has(name: string): boolean {
    return this.#find(name) >= 0;
  }

  /** As `Checkpoint.info`. */
  info(name: string): TensorInfo {
    return tensorInfo(this.#header, this.#require(name));
  }

  /** As `Checkpoint.getTensor`. */
  getTensor(name: string): Tensor {
    return this.findTensor(name) ?? this.#makeTensor(this.#require(name), name);
  }

  /** As `getTensor`; undefined for an unknown name. */
  findTensor(name: string): Tensor | undefined {
    requireOpen(this.#storage);
    this.#storage.verifyOften();
    const cached = this.#tensors.get(name);
    if (cached !== undefined) return cached;
    const entry = this.#find(name);
    return entry < 0 ? undefined : this.#makeTensor(entry, name);
  }

  /** All tensors as `[name, tensor]`, in file order. */
  *[Symbol.iterator](): Generator<[string, Tensor], void, void> {
    for (const [entry, name] of this.offsetKeys().entries()) {
      requireOpen(this.#storage);
      this.#storage.verifyOften();
      yield [name, this.#tensor(entry, name)];
    }
  }

  /** As `Checkpoint.prefetch`. */
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

  /** As `Checkpoint.residency`. */
  residency(name?: string): number | null {
    verifyOpen(this.#storage);
    if (name === undefined) {
      return this.#storage.residentBytes(this.#begin, this.#begin + this.byteLength);
    }
    const { position, byteLength } = this.#range(this.#require(name));
    return this.#storage.residentBytes(position, position + byteLength);
  }

  /** As `Checkpoint.readTensors`. */
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

  /** As `Checkpoint.close`. */
  close(options: CloseOptions = {}): void {
    requireOptions(options, CLOSE_OPTIONS);
    const { detach = false } = options;
    requireBoolean('detach', detach);
    this.#storage.close(detach);
    this.#tensors.clear();
  }

  /** Closes the descriptor, if no call uses it; the file works without it, too. Returns whether it closed it. */
  reclaimDescriptor(): boolean {
    return this.#storage.reclaimDescriptor?.() ?? false;
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
    throw tensorNotFound(name, this.#names(), { path: this.path });
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
