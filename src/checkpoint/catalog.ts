/**
 * Which tensors a checkpoint has, and where: by the index, and by the shards where that does not
 * suffice.
 */

import { requireNames, requireString } from '../errors/arguments.js';
import { TensorNotFoundError } from '../errors/errors.js';
import { nearNames } from '../errors/near-names.js';
import { SafetensorsFile } from '../file/file.js';
import { locateTensor, type TensorPlace, type WrittenTensors } from '../shards/aliases.js';
import type { CheckpointIndex } from '../shards/checkpoint-index.js';
import type { Tensor } from '../tensor/tensor.js';
import type { LazyShards } from './lazy-shards.js';
import type { ShardWork } from './transfer-shards.js';

/** A tensor in its open shard. */
export interface TensorInFile {
  readonly file: SafetensorsFile;
  /** Name in the shard: for an alias that of the kept tensor. */
  readonly name: string;
  /** Length in bytes. */
  readonly byteLength: number;
}

/** The tensors of an open checkpoint. Everything throws FileClosedError when it is closed. */
export class Catalog implements WrittenTensors {
  readonly #shards: LazyShards;
  readonly #index: CheckpointIndex | null;

  /** Without an index there is one shard, whose header replaces the index. */
  constructor(shards: LazyShards) {
    this.#shards = shards;
    this.#index = shards.files.index;
  }

  /** Number of tensors; by the index, if there is one. */
  get size(): number {
    this.#shards.requireOpen();
    return this.#index?.size ?? this.#shards.open(0).size;
  }

  /** The index's metadata, else the single file's. */
  get metadata(): ReadonlyMap<string, string> | null {
    this.#shards.requireOpen();
    return this.#index === null ? this.#shards.open(0).metadata : this.#index.metadata;
  }

  /** Names sorted by their UTF-8 bytes. */
  keys(): string[] {
    this.#shards.requireOpen();
    const index = this.#index;
    if (index === null) return this.#shards.open(0).keys();
    return index.sortedNames();
  }

  /** Every tensor that a shard has; of several with one name, the one that the index means. */
  takeAll(): Map<string, Tensor> {
    const tensors = new Map<string, Tensor>();
    let shard = 0;
    for (const file of this.#shards) {
      for (const [name, tensor] of file) {
        if (!tensors.has(name) || this.shardOf(name) === shard) tensors.set(name, tensor);
      }
      shard++;
    }
    return tensors;
  }

  /** The shard of a name that is no alias; -1 when there is none. */
  shardOf(name: string): number {
    if (this.#index === null) return this.#shards.open(0).has(name) ? 0 : -1;
    const entry = this.#index.find(name);
    return entry === -1 ? -1 : this.#index.shardOf(entry);
  }

  /** Shard and name there of a tensor or an alias, by the index if there is one; null for neither. */
  find(name: string): TensorPlace | null {
    requireString('name', name);
    this.#shards.requireOpen();
    return locateTensor(this, name);
  }

  /**
   * Opens the shard of a tensor or an alias, and returns what `use` returns for it, with its name in
   * the shard.
   *
   * @throws TensorNotFoundError; FormatError `SAFETENSORS_INDEX_MISMATCH` when it is not in its shard
   */
  lookUp<Result>(wanted: string, use: (file: SafetensorsFile, name: string) => Result): Result {
    const found = this.#placeOf(wanted);
    if (found === null) {
      throw new TensorNotFoundError(wanted, nearNames(wanted, this.#names()), {
        path: this.#shards.files.path,
      });
    }
    const { shard, name } = found;
    const file = this.#shards.open(shard);
    try {
      return use(file, name);
    } catch (error) {
      const isMissing = error instanceof TensorNotFoundError && this.#index !== null;
      throw isMissing ? this.#shards.missing(shard, name) : error;
    }
  }

  /** As `find`. Without an index, a name that cannot be an alias is left for the file to look up. */
  #placeOf(wanted: string): TensorPlace | null {
    const isPlain = this.#index === null && this.metadata?.has(wanted) !== true;
    return isPlain ? { shard: 0, name: wanted } : this.find(wanted);
  }

  /** The names that the index gives a shard, in the order of the shard. */
  namesIn(shard: number): string[] {
    const file = this.#shards.open(shard);
    const index = this.#index;
    if (index === null) return file.offsetKeys();
    const { header } = SafetensorsFile.contentOf(file);
    const places = index.placesIn(shard, header);
    const missing = places.indexOf(-1);
    if (missing !== -1) {
      throw this.#shards.missing(shard, index.name(index.entriesOf(shard)[missing] as number));
    }
    return Array.from(places.sort(), (place) => header.name(place));
  }

  /** All names, for hints. */
  *#names(): Generator<string, void, void> {
    const index = this.#index;
    if (index === null) yield* this.#shards.open(0).offsetKeys();
    else yield* index.names();
  }

  /** Where the named tensors are, in the order given. */
  places(names: Iterable<string>): Map<string, TensorInFile> {
    this.#shards.requireOpen();
    requireNames(names);
    const placeOf = (wanted: string): TensorInFile =>
      this.lookUp(wanted, (file, name) => {
        const [begin, end] = file.info(name).dataOffsets;
        return { file, name, byteLength: end - begin };
      });
    return new Map(Array.from(names, (name) => [name, placeOf(name)]));
  }

  /** What to fetch for all tensors. */
  allWorks(): ShardWork[] {
    return Array.from(this.#shards, (file) => {
      const { dataByteLength } = SafetensorsFile.contentOf(file).header;
      return { file, names: undefined, byteLength: dataByteLength };
    });
  }

  /** What to fetch for some tensors, by shard; each tensor once, even if several names mean it. */
  works(places: ReadonlyMap<string, TensorInFile>): ShardWork[] {
    const lengthsByFile = new Map<SafetensorsFile, Map<string, number>>();
    for (const { file, name, byteLength } of places.values()) {
      const lengths = lengthsByFile.get(file) ?? new Map<string, number>();
      lengthsByFile.set(file, lengths.set(name, byteLength));
    }
    return Array.from(lengthsByFile, ([file, lengths]) => {
      const byteLength = [...lengths.values()].reduce((sum, length) => sum + length, 0);
      return { file, names: [...lengths.keys()], byteLength };
    });
  }
}
