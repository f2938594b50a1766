/** Checkpoints of torch in several files, by their index. */

import { indexedFiles, type ShardFile } from '../../checkpoint/find-files.js';
import { transferShards } from '../../checkpoint/transfer-shards.js';
import { requireNames, requireOptions, requireString } from '../../errors/arguments.js';
import {
  FileClosedError,
  type ForeignFormatError,
  FormatError,
  quoteName,
  TensorNotFoundError,
} from '../../errors/errors.js';
import { nearNames } from '../../errors/near-names.js';
import { uncloneable } from '../../errors/uncloneable.js';
import type { CloseOptions } from '../../file/file.js';
import { runSync } from '../../io/steps.js';
import { TRANSFER_OPTIONS, type TransferOptions } from '../../io/transfer.js';
import { compareCodePoints } from '../../json/code-point-order.js';
import type { CheckpointIndex } from '../../shards/checkpoint-index.js';
import type { StorageKind } from '../../storage/storage.js';
import { INSPECT, type Inspect, showFacts } from '../../tensor/inspection.js';
import type { SliceIndex } from '../../tensor/slice.js';
import type { Tensor } from '../../tensor/tensor.js';
import { type ForeignFileFacts, type ForeignTensorInfo, factsShown } from '../foreign-file.js';
import { throwProblemOf } from '../tensor-problems.js';
import type { TorchCheckpoint } from './checkpoint.js';
import type { PlainValue } from './plain-values.js';
import type { RootKeys } from './roots.js';

/** Shards of torch end so. */
const SHARD_EXTENSION = '.bin';

/**
 * Opens an index and all its shards.
 *
 * @throws FormatError for a bad index; `SAFETENSORS_INDEX_MISMATCH` when a shard lacks a tensor that the
 *   index names; SafetensorsError `SAFETENSORS_MISSING_SHARDS`
 */
export function openSharded(
  path: string,
  maxIndexByteLength: number | undefined,
  open: (path: string) => TorchCheckpoint,
): ShardedTorchCheckpoint {
  const options = { maxIndexByteLength, shardExtension: SHARD_EXTENSION };
  const { index, shards } = runSync(indexedFiles(path, options));
  const files = new Map<ShardFile, TorchCheckpoint>();
  try {
    for (const shard of shards) files.set(shard, open(shard.path));
    return new ShardedTorchCheckpoint(path, files, fileOfNames(index, [...files.values()], path));
  } catch (error) {
    for (const file of files.values()) file.close();
    throw error;
  }
}

/** Which file has each tensor. The index decides; a shard may have more. */
function fileOfNames(
  index: CheckpointIndex | null,
  files: readonly TorchCheckpoint[],
  path: string,
): Map<string, TorchCheckpoint> {
  const names = index?.names() ?? [];
  const byName = new Map(
    names.map((name, entry) => [name, files[index?.shardOf(entry) ?? 0] as TorchCheckpoint]),
  );
  const leftOut = new Map(files.map((file) => [file, leftOutOf(file)]));
  const isThere = (name: string): boolean => {
    const file = byName.get(name);
    return file !== undefined && (file.has(name) || leftOut.get(file)?.has(name) === true);
  };
  const missing = names.filter((name) => !isThere(name));
  const [first] = missing;
  if (first === undefined) return byName;
  const message =
    `expected the tensor in ${quoteName(byName.get(first)?.path ?? '')}, found none ` +
    `(${missing.length} of ${names.length} are missing)`;
  throw new FormatError('SAFETENSORS_INDEX_MISMATCH', message, { path, tensor: first });
}

/** Names of the tensors that a shard has and that cannot be had. */
function leftOutOf(file: TorchCheckpoint): Set<string | undefined> {
  return new Set(file.problems.map(({ tensor }) => tensor));
}

const UNCLONEABLE = uncloneable('A ShardedTorchCheckpoint', 'post its path, and open that there');

/**
 * A checkpoint of torch in several files: as `TorchCheckpoint`, with the tensors that the index names.
 *
 * @example
 * ```ts
 * const checkpoint = openTorchCheckpoint('torch-model/pytorch_model.bin.index.json');
 * console.log(checkpoint.keys()); // → [ 'l1.weight', 'w' ]
 * ```
 */
export class ShardedTorchCheckpoint implements Iterable<[string, Tensor]> {
  /** @internal */
  readonly uncloneable = UNCLONEABLE;
  /** Path of the index, as it was given, as text. */
  readonly path: string;
  readonly #files: ReadonlyMap<ShardFile, TorchCheckpoint>;
  /** Of the tensors that can be had. */
  readonly #fileOf: ReadonlyMap<string, TorchCheckpoint>;
  readonly #problems: readonly ForeignFormatError[];
  #isClosed = false;

  /** @internal Takes ownership of the files. */
  constructor(
    path: string,
    files: ReadonlyMap<ShardFile, TorchCheckpoint>,
    fileOf: ReadonlyMap<string, TorchCheckpoint>,
  ) {
    this.path = path;
    this.#files = files;
    this.#fileOf = new Map([...fileOf].filter(([name, file]) => file.has(name)));
    const problems = [...files.values()].flatMap((file) =>
      file.problems.filter(({ tensor = '' }) => fileOf.get(tensor) === file),
    );
    this.#problems = Object.freeze(problems);
  }

  /** @internal The open shards in the order of the index, each with the tensors that it is to give. */
  static partsOf(checkpoint: ShardedTorchCheckpoint): Map<TorchCheckpoint, string[]> {
    checkpoint.#requireOpen();
    const parts = new Map<TorchCheckpoint, string[]>();
    for (const file of checkpoint.#files.values()) parts.set(file, []);
    for (const [name, file] of checkpoint.#fileOf) parts.get(file)?.push(name);
    return parts;
  }

  /** As `TorchCheckpoint.problems`: of the tensors that the index names, in the order of the shards. */
  get problems(): readonly ForeignFormatError[] {
    return this.#problems;
  }

  /** Names of the shards, relative to the folder of the index, in its order. */
  get shards(): readonly string[] {
    return Array.from(this.#files.keys(), ({ name }) => name);
  }

  /** As `TorchCheckpoint.storage`; `'read'` when that is so of one of the shards. */
  get storage(): StorageKind {
    const kinds = Array.from(this.#files.values(), (file) => file.storage);
    return kinds.find((kind) => kind !== 'mmap') ?? 'mmap';
  }

  /** False once a tensor was refused because a shard changed, and after `close()`. */
  get ok(): boolean {
    return !this.#isClosed && [...this.#files.values()].every((file) => file.ok);
  }

  /** Number of tensors, by the index, without those of `problems`. */
  get size(): number {
    this.#requireOpen();
    return this.#fileOf.size;
  }

  /** Length of all shards in bytes. */
  get byteLength(): number {
    return [...this.#files.values()].reduce((sum, file) => sum + file.byteLength, 0);
  }

  /** The keys that lead to the state dict in the first shard. */
  get root(): RootKeys {
    const [first] = this.#files.values();
    return first?.root ?? [];
  }

  /** What in the shards is not a tensor, by their names: of every shard as `TorchCheckpoint.values()`. */
  values(): ReadonlyMap<string, PlainValue> {
    return new Map(Array.from(this.#files, ([{ name }, file]) => [name, file.values()]));
  }

  /** Names sorted by their UTF-8 bytes; a new array. */
  keys(): string[] {
    this.#requireOpen();
    return [...this.#fileOf.keys()].sort(compareCodePoints);
  }

  /** Names shard by shard, in the order of the tensors' bytes; a new array. */
  offsetKeys(): string[] {
    this.#requireOpen();
    return [...this.#files.values()].flatMap((file) =>
      file.offsetKeys().filter((name) => this.#fileOf.get(name) === file),
    );
  }

  /** Whether the index names a tensor so, and it can be had. */
  has(name: string): boolean {
    requireString('name', name);
    this.#requireOpen();
    return this.#fileOf.has(name);
  }

  /** As `TorchCheckpoint.info`. */
  info(name: string): ForeignTensorInfo {
    return this.#fileWith(name).info(name);
  }

  /** As `TorchCheckpoint.getTensor`. */
  getTensor(name: string): Tensor {
    return this.#fileWith(name).getTensor(name);
  }

  /** Several tensors by name, in the order given; all, as `offsetKeys` gives them, without an argument. */
  getTensors(names: Iterable<string> = this.offsetKeys()): Map<string, Tensor> {
    requireNames(names);
    return new Map(Array.from(names, (name) => [name, this.getTensor(name)]));
  }

  /** A part of a tensor: `getTensor(name).slice(...index)`. */
  getSlice(name: string, ...index: readonly SliceIndex[]): Tensor {
    return this.getTensor(name).slice(...index);
  }

  /** All tensors as `[name, tensor]`, shard by shard. */
  *[Symbol.iterator](): Generator<[string, Tensor], void, void> {
    for (const name of this.offsetKeys()) yield [name, this.getTensor(name)];
  }

  /** As `TorchCheckpoint.prefetch`, shard by shard. */
  async prefetch(names?: Iterable<string>, options: TransferOptions = {}): Promise<void> {
    await this.#transfer(names, options, (file, some, transfer) => file.prefetch(some, transfer));
  }

  /** As `TorchCheckpoint.readTensors`, shard by shard; in the order given. */
  async readTensors(
    names: Iterable<string> = this.offsetKeys(),
    options: TransferOptions = {},
  ): Promise<Map<string, Tensor>> {
    requireNames(names);
    const wanted = [...new Set(names)];
    const loaded = new Map<string, Tensor>();
    await this.#transfer(wanted, options, async (file, some, transfer) => {
      for (const [name, tensor] of await file.readTensors(some, transfer)) loaded.set(name, tensor);
    });
    return new Map(wanted.map((name) => [name, loaded.get(name) as Tensor]));
  }

  /** As `TorchCheckpoint.verifyChecksums`, shard by shard. */
  async verifyChecksums(options: TransferOptions = {}): Promise<void> {
    requireOptions(options, TRANSFER_OPTIONS);
    this.#requireOpen();
    const works = Array.from(this.#files.values(), (file) => ({
      file,
      byteLength: file.byteLength,
    }));
    const check = (): void => this.#requireOpen();
    await transferShards(works, options, check, (work, transfer) =>
      work.file.verifyChecksums(transfer),
    );
  }

  /** As `TorchCheckpoint.close`, of all shards. */
  close(options: CloseOptions = {}): void {
    for (const file of this.#files.values()) file.close(options);
    this.#isClosed = true;
  }

  /** For `using checkpoint = …`: as `close()`, at the end of the block. */
  [Symbol.dispose](): void {
    this.close();
  }

  /** What the checkpoint is, for `JSON.stringify`: no tensors and no data. Does not throw after `close()`. */
  toJSON(): ForeignFileFacts {
    const facts = { path: this.path, storage: this.storage, ok: this.ok };
    return this.#isClosed ? facts : { ...facts, size: this.size, byteLength: this.byteLength };
  }

  /** @internal For `console.log`. */
  [INSPECT](depth: number, options: object, inspect: Inspect): string {
    return showFacts(
      'ShardedTorchCheckpoint',
      factsShown(this.toJSON(), this.#problems),
      depth,
      options,
      inspect,
    );
  }

  #requireOpen(): void {
    if (this.#isClosed) throw new FileClosedError({ path: this.path });
  }

  #fileWith(name: string): TorchCheckpoint {
    requireString('name', name);
    this.#requireOpen();
    const file = this.#fileOf.get(name);
    if (file !== undefined) return file;
    throwProblemOf(name, this.#problems);
    throw new TensorNotFoundError(name, nearNames(name, this.#fileOf.keys()), { path: this.path });
  }

  async #transfer(
    names: Iterable<string> = this.offsetKeys(),
    options: TransferOptions,
    move: (
      file: TorchCheckpoint,
      names: readonly string[],
      options: TransferOptions,
    ) => Promise<void>,
  ): Promise<void> {
    requireOptions(options, TRANSFER_OPTIONS);
    requireNames(names);
    const wanted = new Map<TorchCheckpoint, string[]>();
    for (const name of new Set(names)) {
      const file = this.#fileWith(name);
      const some = wanted.get(file);
      if (some === undefined) wanted.set(file, [name]);
      else some.push(name);
    }
    const works = Array.from(wanted, ([file, some]) => {
      const byteLength = some.reduce((sum, name) => sum + file.getTensor(name).byteLength, 0);
      return { file, names: some, byteLength };
    });
    const check = (): void => this.#requireOpen();
    await transferShards(works, options, check, (work, transfer) =>
      move(work.file, work.names, transfer),
    );
  }
}
