/** An open file of another format, in the place of a safetensors file of a checkpoint. */

import { type FormatError, TensorNotFoundError } from '../errors/errors.js';
import type { OtherShard } from '../file/checkpoint/shard.js';
import type { CloseOptions } from '../file/file.js';
import { prefetch } from '../file/prefetch.js';
import { readTensors } from '../file/read-tensors.js';
import { ComputedStorage } from '../tensor/storage/computed.js';
import {
  type LeasableStorage,
  requireOpen,
  type Storage,
  type StorageKind,
  verifyOpen,
} from '../tensor/storage/storage.js';
import { StorageRange } from '../tensor/storage-range.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import { allSettled } from '../work/all-settled.js';
import { requireTransferOptions, type TransferOptions } from '../work/transfer.js';
import { yieldNow } from '../work/yielding.js';
import type { ArchiveContent } from './checksums.js';
import { ForeignContents } from './tensors/foreign-contents.js';
import { type ForeignTensor, heldRange } from './tensors/foreign-tensor.js';

/** Uncompressed, contiguous little-endian tensors are views of the file; all others are made on first use. */
export class ForeignShard implements OtherShard {
  readonly #storage: Storage;
  readonly #contents: ForeignContents;
  readonly #archive: ArchiveContent;
  // Strong references: every call returns the same tensor with the same buffer, so writes to it stay.
  readonly #tensors = new Map<string, Tensor>();

  /** Takes ownership of the storage. `archive` has the entries of the tensors' bytes. */
  constructor(
    storage: Storage,
    tensors: readonly ForeignTensor[],
    archive: ArchiveContent = { entries: [], limits: {} },
    metadata: ReadonlyMap<string, string> | null = null,
  ) {
    this.#storage = storage;
    this.#contents = new ForeignContents(tensors, metadata);
    this.#archive = archive;
  }

  get path(): string | undefined {
    return this.#storage.path;
  }

  get storage(): StorageKind {
    return this.#storage.kind;
  }

  get ok(): boolean {
    return this.#storage.ok && !this.#storage.closed;
  }

  get byteLength(): number {
    return this.#storage.byteLength;
  }

  get contents(): ForeignContents {
    requireOpen(this.#storage);
    return this.#contents;
  }

  get hasChecksums(): boolean {
    return this.#archive.entries.some(({ crc32 }) => crc32 !== null);
  }

  /** The storage of the whole file, and the entries of its tensors' bytes. */
  get archive(): readonly [LeasableStorage, ArchiveContent] {
    // A file opened by its path lends its descriptor.
    return [this.#storage as LeasableStorage, this.#archive];
  }

  findTensor(name: string): Tensor | undefined {
    requireOpen(this.#storage);
    this.#storage.verifyOften();
    const cached = this.#tensors.get(name);
    if (cached !== undefined) return cached;
    const entry = this.#contents.find(name);
    return entry === -1 ? undefined : this.#makeTensor(this.#contents.tensor(entry));
  }

  residency(name?: string): number | null {
    this.verify();
    if (name === undefined) return this.#storage.residentBytes(0, this.#storage.byteLength);
    const { position, byteLength } = heldRange(this.#require(name));
    return this.#storage.residentBytes(position, position + byteLength);
  }

  async prefetch(names?: Iterable<string>, options: TransferOptions = {}): Promise<void> {
    requireTransferOptions(options);
    const tensors = this.#chosen(names);
    const sources = (): StorageRange[] =>
      tensors.filter((tensor) => !this.#isMade(tensor)).map((tensor) => this.#sourceOf(tensor));
    if (this.#storage.populate === undefined) {
      for (const tensor of tensors.filter((one) => this.#isMade(one))) {
        await turnUnlessAborted(options.signal);
        this.#sourceOf(tensor).resolve();
      }
    }
    await prefetch(this.#storage, tensors.map(heldRange), sources, options);
  }

  async readTensors(
    names?: Iterable<string>,
    options: TransferOptions = {},
  ): Promise<Map<string, Tensor>> {
    requireTransferOptions(options);
    const tensors = this.#chosen(names);
    const toMake = tensors
      .filter((tensor) => this.#isMade(tensor))
      .map((tensor) => this.#makeUnkept(tensor));
    const entries = tensors
      .filter((tensor) => !this.#isMade(tensor))
      .map(({ name, dtype, shape, data: { begin, byteLength } }) => {
        return { name, dtype, shape, position: begin, byteLength };
      });
    // Both have everything before the first turn, so close() does not affect them.
    const reading = readTensors(this.#storage, entries, options);
    const making = copyAll(toMake, options.signal);
    await allSettled([reading, making]);
    const [read, made] = [await reading, await making];
    const tensorOf = (name: string): Tensor => (made.get(name) ?? read.get(name)) as Tensor;
    return new Map(tensors.map(({ name }) => [name, tensorOf(name)]));
  }

  verify(): void {
    verifyOpen(this.#storage);
  }

  async verifyBytes(
    options: TransferOptions,
    report: (problem: FormatError) => void,
  ): Promise<void> {
    requireOpen(this.#storage);
    const [storage, content] = this.archive;
    const { verifyEntries } = await import('./checksums.js');
    await verifyEntries(storage, content, options, report);
  }

  close({ detach = false }: CloseOptions = {}): void {
    for (const { data } of this.#contents.tensors) closeMade(data.storage, detach);
    this.#storage.close(detach);
    this.#tensors.clear();
  }

  reclaimDescriptor(): boolean {
    return this.#storage.reclaimDescriptor?.() ?? false;
  }

  #entryOf(name: string): number {
    const entry = this.contents.find(name);
    // The checkpoint knows near names, and the unreadable tensors.
    if (entry === -1) throw new TensorNotFoundError(name, [], { path: this.path });
    return entry;
  }

  #require(name: string): ForeignTensor {
    return this.#contents.tensor(this.#entryOf(name));
  }

  /** Returns the names in the order given, each once; all names without an argument. */
  #chosen(names: Iterable<string> | undefined): readonly ForeignTensor[] {
    if (names === undefined) return this.contents.tensors;
    return Array.from(new Set(names), (name) => this.#require(name));
  }

  #isMade({ data }: ForeignTensor): boolean {
    return data.storage !== this.#storage;
  }

  #sourceOf({ name }: ForeignTensor): StorageRange {
    return TensorOf.sourceOf(this.findTensor(name) as Tensor);
  }

  #makeTensor(tensor: ForeignTensor): Tensor {
    const made = this.#makeUnkept(tensor);
    this.#tensors.set(tensor.name, made);
    return made;
  }

  #makeUnkept({ name, dtype, shape, data }: ForeignTensor): Tensor {
    const { storage, begin, byteLength } = data;
    const source = new StorageRange(storage, name, begin, begin + byteLength);
    return TensorOf.of(name, dtype, shape, source);
  }
}

/** Copies tensors by name, one in each turn of the event loop. */
async function copyAll(
  tensors: readonly Tensor[],
  signal: AbortSignal | undefined,
): Promise<Map<string, Tensor>> {
  const copies = new Map<string, Tensor>();
  try {
    for (const tensor of tensors) {
      await turnUnlessAborted(signal);
      copies.set(tensor.name, tensor.copy());
    }
  } finally {
    for (const tensor of tensors) TensorOf.sourceOf(tensor).endReading();
  }
  return copies;
}

/** Lets the event loop turn. Throws the signal's reason when it was aborted. */
async function turnUnlessAborted(signal: AbortSignal | undefined): Promise<void> {
  await yieldNow();
  signal?.throwIfAborted();
}

/** Closes storages that compute bytes, together with those that they compute them from. */
function closeMade(storage: Storage, detach: boolean): void {
  if (!(storage instanceof ComputedStorage)) return;
  storage.close(detach);
  closeMade(storage.source.storage, detach);
}
