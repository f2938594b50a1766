/**
 * Which tensors a checkpoint has, and where: by the index, and by the shards where that does not
 * suffice.
 */

import { requireNames, requireString } from '../errors/arguments.js';
import { TensorNotFoundError } from '../errors/errors.js';
import { type TensorEntry, tensorEntries } from '../file/facts.js';
import { SafetensorsFile } from '../file/file.js';
import type { Header } from '../format/header.js';
import type { Steps } from '../io/steps.js';
import type { TensorPlace } from '../shards/aliases.js';
import { CheckpointContents } from '../shards/contents.js';
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
export class Catalog {
  readonly #shards: LazyShards;
  readonly #contents: CheckpointContents;

  /** Without an index there is one shard, whose header replaces the index. */
  constructor(shards: LazyShards) {
    this.#shards = shards;
    const { index, path } = shards.files;
    this.#contents = new CheckpointContents(index, path, () =>
      SafetensorsFile.headerOf(shards.open(0)),
    );
  }

  /** Number of tensors; by the index, if there is one. */
  get size(): number {
    this.#shards.requireOpen();
    return this.#contents.size;
  }

  /** The index's metadata, else the single file's. */
  get metadata(): ReadonlyMap<string, string> | null {
    this.#shards.requireOpen();
    return this.#contents.metadata;
  }

  /** Names sorted by their UTF-8 bytes. */
  keys(): string[] {
    this.#shards.requireOpen();
    return this.#contents.keys();
  }

  /** Every tensor that a shard has; of several with one name, the one that the index means. */
  takeAll(): Map<string, Tensor> {
    const tensors = new Map<string, Tensor>();
    let shard = 0;
    for (const file of this.#shards) {
      for (const [name, tensor] of file) {
        const isMeant = !tensors.has(name) || this.#contents.shardOf(name) === shard;
        if (isMeant) tensors.set(name, tensor);
      }
      shard++;
    }
    return tensors;
  }

  /** Shard and name there of a tensor or an alias, by the index if there is one; null for neither. */
  find(name: string): TensorPlace | null {
    requireString('name', name);
    this.#shards.requireOpen();
    return this.#contents.find(name);
  }

  /**
   * Opens the shard of a tensor or an alias, and returns what `use` returns for it, with its name in
   * the shard.
   *
   * @throws TensorNotFoundError; FormatError `SAFETENSORS_INDEX_MISMATCH` when it is not in its shard
   */
  lookUp<Result>(wanted: string, use: (file: SafetensorsFile, name: string) => Result): Result {
    const found = this.#placeOf(wanted);
    if (found === null) throw this.#contents.notFound(wanted);
    const { shard, name } = found;
    const file = this.#shards.open(shard);
    try {
      return use(file, name);
    } catch (error) {
      const isMissing = error instanceof TensorNotFoundError && this.#hasIndex;
      throw isMissing ? this.#contents.missing(shard, name) : error;
    }
  }

  /** As `find`. Without an index, a name that cannot be an alias is left for the file to look up. */
  #placeOf(wanted: string): TensorPlace | null {
    const isPlain = !this.#hasIndex && this.metadata?.has(wanted) !== true;
    return isPlain ? { shard: 0, name: wanted } : this.find(wanted);
  }

  get #hasIndex(): boolean {
    return this.#shards.files.index !== null;
  }

  /** The names that a shard has, in its order; opens it. */
  namesIn(shard: number): string[] {
    return this.#contents.namesIn(shard, this.#headerOf(shard));
  }

  /** All tensors, shard by shard, in the order of each; opens all shards. */
  *tensors(): Steps<TensorEntry[]> {
    yield* this.#shards.openAll();
    const lists: TensorEntry[][] = [];
    for (const [shard, { name }] of this.#shards.files.shards.entries()) {
      const header = this.#headerOf(shard);
      lists.push(yield* tensorEntries(header, name, this.#contents.entriesIn(shard, header)));
    }
    return lists.flat();
  }

  /** What an only file says is there whether it has changed or not. */
  #headerOf(shard: number): Header {
    const file = this.#shards.open(shard);
    return this.#hasIndex ? SafetensorsFile.contentOf(file).header : SafetensorsFile.headerOf(file);
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
