/**
 * An open file of another format. It has the members of `SafetensorsFile` that need no safetensors header.
 *
 * File length: one class, and most lines are what users read about its members.
 */

import { setImmediate } from 'node:timers/promises';
import {
  requireBoolean,
  requireNames,
  requireOptions,
  requireString,
} from '../errors/arguments.js';
import { type ForeignFormatError, TensorNotFoundError } from '../errors/errors.js';
import { nearNames } from '../errors/near-names.js';
import { uncloneable } from '../errors/uncloneable.js';
import { type FileFacts, handleFacts } from '../file/facts.js';
import { CLOSE_OPTIONS, type CloseOptions } from '../file/file.js';
import { prefetch } from '../file/prefetch.js';
import { readTensors } from '../file/read-tensors.js';
import type { Dtype } from '../format/dtype.js';
import { allSettled } from '../io/all-settled.js';
import { requireTransferOptions, TRANSFER_OPTIONS, type TransferOptions } from '../io/transfer.js';
import { compareCodePoints } from '../json/code-point-order.js';
import { MadeStorage } from '../storage/made.js';
import {
  type LendingStorage,
  requireOpen,
  type Storage,
  type StorageKind,
} from '../storage/storage.js';
import { INSPECT, type Inspect, showFacts } from '../tensor/inspection.js';
import type { SliceIndex } from '../tensor/slice.js';
import { StorageRange } from '../tensor/storage-range.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import { type ArchiveContent, verifyEntries } from './checksums.js';
import { type ForeignTensor, placeOf } from './foreign-tensor.js';
import { throwProblemOf } from './tensor-problems.js';

/** What is known of a tensor without its bytes. */
export interface ForeignTensorInfo {
  /** The dtype that safetensors has for it. */
  readonly dtype: Dtype;
  /** Dimensions in elements, outermost first; empty for a scalar. */
  readonly shape: readonly number[];
}

/** What `ForeignFile.toJSON` gives; of a closed file only the first three. */
export type ForeignFileFacts = Omit<FileFacts, 'metadata'>;

const UNCLONEABLE = uncloneable('A ForeignFile', 'post its path, and open that there');

/**
 * An open file of another format, whose tensors are ordinary ones. Contiguous little-endian tensors that are
 * not compressed are views of the mapped file; all others are made when their bytes are first used: gathered,
 * swapped or inflated.
 *
 * After `close()` everything but `path`, `storage`, `ok` and `close()` itself throws
 * `SAFETENSORS_FILE_CLOSED`; tensors that were handed out stay valid.
 *
 * @example
 * ```ts
 * const file = openTorchCheckpoint('model.ckpt');
 * console.log(file.size, file.info('w').shape); // → 2 [ 2, 3 ]
 * console.log(file.getSlice('w', 1).toFloat32()); // → Float32Array(3) [ 3, 4, 5 ]
 * ```
 */
export class ForeignFile implements Iterable<[string, Tensor]> {
  /** @internal */
  readonly uncloneable: symbol = UNCLONEABLE;
  readonly #storage: Storage;
  /** By name, in the order of their bytes in the file. */
  readonly #facts: ReadonlyMap<string, ForeignTensor>;
  // Strong references: every call gives the same tensor with the same buffer, which keeps writes.
  readonly #tensors = new Map<string, Tensor>();

  readonly #archive: ArchiveContent;
  readonly #problems: readonly ForeignFormatError[];

  /**
   * @internal Takes ownership of the storage. No two tensors have one name. `archive` has the entries from
   * which their bytes come, `problems` what is wrong with tensors that are not among them.
   */
  constructor(
    storage: Storage,
    tensors: readonly ForeignTensor[],
    archive: ArchiveContent = { entries: [], limits: {} },
    problems: readonly ForeignFormatError[] = [],
  ) {
    this.#storage = storage;
    this.#archive = archive;
    this.#problems = Object.freeze([...problems]);
    const placed = tensors.map((tensor) => ({ tensor, at: placeOf(tensor).position }));
    placed.sort((a, b) => a.at - b.at);
    this.#facts = new Map(placed.map(({ tensor }) => [tensor.name, tensor]));
  }

  /** @internal What is known of the tensors. */
  static factsOf(file: ForeignFile): ReadonlyMap<string, ForeignTensor> {
    return file.#facts;
  }

  /** @internal The storage of the whole file, and the entries that its tensors' bytes come from. */
  static archiveOf(file: ForeignFile): readonly [LendingStorage, ArchiveContent] {
    // Whatever is opened by its path lends its descriptor.
    return [file.#storage as LendingStorage, file.#archive];
  }

  /** The path as it was given, as text. */
  get path(): string | undefined {
    return this.#storage.path;
  }

  /** Where bytes come from: `'mmap'`, or `'read'`, positioned reads into ordinary memory. */
  get storage(): StorageKind {
    return this.#storage.kind;
  }

  /** False once a tensor was refused because the file changed, and after `close()`. */
  get ok(): boolean {
    return this.#storage.ok && !this.#storage.closed;
  }

  /**
   * Why other tensors of the file cannot be had: safetensors has nothing to hold them. Each error has the name as
   * `tensor` and the code `SAFETENSORS_UNSUPPORTED_TENSOR`; `getTensor` of that name throws it. Empty for nearly
   * all files; the same after `close()`.
   */
  get problems(): readonly ForeignFormatError[] {
    return this.#problems;
  }

  /** Number of tensors, without those of `problems`. */
  get size(): number {
    return this.#open().size;
  }

  /** Length of the whole file in bytes. */
  get byteLength(): number {
    this.#open();
    return this.#storage.byteLength;
  }

  /** Names sorted by their UTF-8 bytes; a new array. */
  keys(): string[] {
    return this.offsetKeys().sort(compareCodePoints);
  }

  /** Names in the order of the tensors' bytes in the file; a new array. */
  offsetKeys(): string[] {
    return [...this.#open().keys()];
  }

  /** Whether there is a tensor of that name. */
  has(name: string): boolean {
    requireString('name', name);
    return this.#open().has(name);
  }

  /**
   * Dtype and shape of a tensor; a new frozen object. Reads nothing.
   *
   * @throws TensorNotFoundError
   */
  info(name: string): ForeignTensorInfo {
    const { dtype, shape } = this.#require(name);
    return Object.freeze({ dtype, shape: Object.freeze(shape) });
  }

  /**
   * A tensor of the file, the same object on every call. Reads nothing: its bytes are reached, or made, when
   * they are first used. Checks that the file has not changed, as `SafetensorsFile.getTensor` does.
   *
   * @throws TensorNotFoundError, FileChangedError, FileClosedError; ForeignFormatError
   *   `SAFETENSORS_UNSUPPORTED_TENSOR` for a tensor of `problems`
   */
  getTensor(name: string): Tensor {
    requireOpen(this.#storage);
    this.#storage.verifyOften();
    return this.#tensors.get(name) ?? this.#makeTensor(this.#require(name));
  }

  /** Several tensors by name, in the order given; all of them in file order without an argument. */
  getTensors(names: Iterable<string> = this.offsetKeys()): Map<string, Tensor> {
    requireNames(names);
    const tensors = new Map<string, Tensor>();
    for (const name of names) tensors.set(name, this.getTensor(name));
    return tensors;
  }

  /** A part of a tensor: `getTensor(name).slice(...index)`. */
  getSlice(name: string, ...index: readonly SliceIndex[]): Tensor {
    return this.getTensor(name).slice(...index);
  }

  /** All tensors as `[name, tensor]`, in file order. */
  *[Symbol.iterator](): Generator<[string, Tensor], void, void> {
    for (const name of this.offsetKeys()) yield [name, this.getTensor(name)];
  }

  /**
   * Brings the bytes of the named tensors, of all by default, into memory without blocking the event loop, as
   * `SafetensorsFile.prefetch` does. What has to be gathered, swapped or inflated is only done on first use;
   * with `storage: 'read'` it is done here, between other events.
   *
   * @throws TensorNotFoundError, FileChangedError, FileClosedError, `SAFETENSORS_TENSOR_TOO_LARGE`,
   *   `SAFETENSORS_OUT_OF_MEMORY`, `signal.reason`
   */
  async prefetch(names?: Iterable<string>, options: TransferOptions = {}): Promise<void> {
    requireOptions(options, TRANSFER_OPTIONS);
    requireTransferOptions(options);
    const facts = this.#chosen(names);
    const sources = (): StorageRange[] =>
      facts.filter((fact) => !this.#isMade(fact)).map((fact) => this.#sourceOf(fact));
    if (this.#storage.populate === undefined) {
      for (const fact of facts.filter((one) => this.#isMade(one))) {
        await nextTurn(options.signal);
        this.#sourceOf(fact).resolve();
      }
    }
    await prefetch(this.#storage, facts.map(placeOf), sources, options);
  }

  /**
   * Reads the named tensors, all by default, into ordinary memory without blocking the event loop, as
   * `SafetensorsFile.readTensors` does: in the order given, each with a buffer that is the caller's alone.
   * `onProgress` counts the bytes of tensors that are read as they stand; others are made meanwhile.
   *
   * @throws TensorNotFoundError, FileChangedError, FileClosedError, `SAFETENSORS_TENSOR_TOO_LARGE`,
   *   `SAFETENSORS_OUT_OF_MEMORY`, `signal.reason`
   */
  async readTensors(
    names?: Iterable<string>,
    options: TransferOptions = {},
  ): Promise<Map<string, Tensor>> {
    requireOptions(options, TRANSFER_OPTIONS);
    requireTransferOptions(options);
    const facts = this.#chosen(names);
    const toMake = facts.filter((fact) => this.#isMade(fact)).map((fact) => this.#makeUnkept(fact));
    const entries = facts
      .filter((fact) => !this.#isMade(fact))
      .map(({ name, dtype, shape, data: { begin, byteLength } }) => {
        return { name, dtype, shape, position: begin, byteLength };
      });
    // Both have what they need before the first turn: close() does not affect them.
    const reading = readTensors(this.#storage, entries, options);
    const making = copyAll(toMake, options.signal);
    await allSettled([reading, making]);
    const [read, made] = [await reading, await making];
    const tensorOf = (name: string): Tensor => (made.get(name) ?? read.get(name)) as Tensor;
    return new Map(facts.map(({ name }) => [name, tensorOf(name)]));
  }

  /**
   * Reads all bytes of an archive's storages or arrays, and compares their CRC-32 with the archive's. Opening
   * and using tensors does not, except for what is deflated. Resolves at once for files without checksums.
   *
   * @throws ForeignFormatError `SAFETENSORS_CHECKSUM_MISMATCH`; FileChangedError, FileClosedError,
   *   `signal.reason`
   */
  async verifyChecksums(options: TransferOptions = {}): Promise<void> {
    requireOptions(options, TRANSFER_OPTIONS);
    this.#open();
    // Whatever is opened by its path lends its descriptor.
    await verifyEntries(this.#storage as LendingStorage, this.#archive, options);
  }

  /**
   * Closes the handle; closing twice is harmless. Tensors that were handed out stay valid, used or not, until
   * they are collected; with `detach` they end, and all is freed now, as for `SafetensorsFile.close`.
   */
  close(options: CloseOptions = {}): void {
    requireOptions(options, CLOSE_OPTIONS);
    const { detach = false } = options;
    requireBoolean('detach', detach);
    for (const { data } of this.#facts.values()) closeMade(data.storage, detach);
    this.#storage.close(detach);
    this.#tensors.clear();
  }

  /** For `using file = …`: as `close()`, at the end of the block. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** What the file is, for `JSON.stringify`: no tensors and no data. Does not throw after `close()`. */
  toJSON(): ForeignFileFacts {
    const facts = handleFacts(this);
    if (this.#storage.closed) return facts;
    return { ...facts, size: this.size, byteLength: this.byteLength };
  }

  /** @internal For `console.log`. */
  [INSPECT](depth: number, options: object, inspect: Inspect): string {
    return showFacts(
      this.constructor.name,
      factsShown(this.toJSON(), this.#problems),
      depth,
      options,
      inspect,
    );
  }

  #open(): ReadonlyMap<string, ForeignTensor> {
    requireOpen(this.#storage);
    return this.#facts;
  }

  #require(name: string): ForeignTensor {
    requireString('name', name);
    const found = this.#open().get(name);
    if (found !== undefined) return found;
    throwProblemOf(name, this.#problems);
    throw new TensorNotFoundError(name, nearNames(name, this.#facts.keys()), { path: this.path });
  }

  /** Those of the names in the order given, each once; all without names. */
  #chosen(names: Iterable<string> | undefined): ForeignTensor[] {
    if (names === undefined) return [...this.#open().values()];
    requireNames(names);
    return Array.from(new Set(names), (name) => this.#require(name));
  }

  #isMade({ data }: ForeignTensor): boolean {
    return data.storage !== this.#storage;
  }

  #sourceOf({ name }: ForeignTensor): StorageRange {
    return TensorOf.sourceOf(this.getTensor(name));
  }

  #makeTensor(fact: ForeignTensor): Tensor {
    const tensor = this.#makeUnkept(fact);
    this.#tensors.set(fact.name, tensor);
    return tensor;
  }

  #makeUnkept({ name, dtype, shape, data }: ForeignTensor): Tensor {
    const { storage, begin, byteLength } = data;
    const source = new StorageRange(storage, name, begin, begin + byteLength);
    return TensorOf.of(name, dtype, shape, source);
  }
}

/** The facts that `console.log` shows: problems, where there are any, are counted among them. */
export function factsShown(facts: object, { length }: readonly ForeignFormatError[]): object {
  return length === 0 ? facts : { ...facts, problems: length };
}

/** Copies tensors by name, one in each turn of the event loop, of which nothing else is asked. */
async function copyAll(
  tensors: readonly Tensor[],
  signal: AbortSignal | undefined,
): Promise<Map<string, Tensor>> {
  const copies = new Map<string, Tensor>();
  try {
    for (const tensor of tensors) {
      await nextTurn(signal);
      copies.set(tensor.name, tensor.copy());
    }
  } finally {
    for (const tensor of tensors) TensorOf.sourceOf(tensor).endReading();
  }
  return copies;
}

/** Lets the event loop turn. Throws the signal's reason when it was aborted. */
async function nextTurn(signal: AbortSignal | undefined): Promise<void> {
  await setImmediate();
  signal?.throwIfAborted();
}

/** Closes what makes bytes, and what makes the bytes that these are made of. */
function closeMade(storage: Storage, detach: boolean): void {
  if (!(storage instanceof MadeStorage)) return;
  storage.close(detach);
  closeMade(storage.source.storage, detach);
}
