/**
 * Which tensors a checkpoint has, and where: by the index, and by the shards where that does not
 * suffice.
 */

import { requireNames, requireString } from '../errors/arguments.js';
import { type SafetensorsError, TensorNotFoundError } from '../errors/errors.js';
import { type ShardHeader, shardHeader, type TensorEntry, tensorEntries } from '../file/facts.js';
import { SafetensorsFile } from '../file/file.js';
import type { FileContents } from '../format/file-contents.js';
import { tensorByteLength } from '../format/tensor-spec.js';
import type { Steps } from '../io/steps.js';
import type { TensorPlace } from '../shards/aliases.js';
import { CheckpointContents } from '../shards/contents.js';
import type { LazyShards } from './lazy-shards.js';
import { contentsOf, isOther, type Shard, verifiedContents } from './shard.js';
import type { ShardWork } from './transfer-shards.js';

/** A tensor in its open shard. */
export interface TensorInFile {
  readonly file: Shard;
  /** Name in the shard: for an alias that of the kept tensor. */
  readonly name: string;
  /** Length in bytes. */
  readonly byteLength: number;
}

/** The tensors of an open checkpoint. Everything throws FileClosedError when it is closed. */
export class Catalog {
  readonly #shards: LazyShards<Shard>;
  readonly #contents: CheckpointContents;

  /** Without an index there is one shard, whose contents replace the index. `problems` as for `CheckpointContents`. */
  constructor(shards: LazyShards<Shard>, problems: readonly SafetensorsError[]) {
    this.#shards = shards;
    const { index, path } = shards.files;
    const only = (): FileContents => contentsOf(shards.open(0));
    this.#contents = new CheckpointContents(index, path, only, problems);
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
  lookUp<Result>(wanted: string, use: (file: Shard, name: string) => Result): Result {
    const found = this.#placeOf(wanted);
    if (found === null) throw this.#contents.notFound(wanted);
    const { shard, name } = found;
    const file = this.#shards.open(shard);
    try {
      return use(file, name);
    } catch (error) {
      if (!(error instanceof TensorNotFoundError)) throw error;
      if (this.#hasIndex) throw this.#contents.missing(shard, name);
      throw this.#contents.notFound(wanted);
    }
  }

  /** As `find`. Without an index, a name that cannot be an alias is left for the file to look up. */
  #placeOf(wanted: string): TensorPlace | null {
    requireString('name', wanted);
    const isPlain = !this.#hasIndex && this.metadata?.has(wanted) !== true;
    return isPlain ? { shard: 0, name: wanted } : this.find(wanted);
  }

  get #hasIndex(): boolean {
    return this.#shards.files.index !== null;
  }

  /** The names that a shard has, in its order; opens it. */
  namesIn(shard: number): string[] {
    return this.#contents.namesIn(shard, this.#contentsOf(shard));
  }

  /** All tensors, shard by shard, in the order of each; opens all shards. */
  *tensors(): Steps<TensorEntry[]> {
    yield* this.#shards.openAll();
    const lists: TensorEntry[][] = [];
    for (const [shard, { name }] of this.#shards.files.shards.entries()) {
      const contents = this.#contentsOf(shard);
      lists.push(yield* tensorEntries(contents, name, this.#contents.entriesIn(shard, contents)));
    }
    return lists.flat();
  }

  /** The headers of all shards of safetensors; opens all shards. */
  *headers(): Steps<ShardHeader[]> {
    yield* this.#shards.openAll();
    const headers: ShardHeader[] = [];
    for (const [shard, { name }] of this.#shards.files.shards.entries()) {
      const file = this.#shards.open(shard);
      if (!isOther(file)) headers.push(yield* shardHeader(SafetensorsFile.headerOf(file), name));
    }
    return headers;
  }

  /** What an only file says is there whether it has changed or not. */
  #contentsOf(shard: number): FileContents {
    const file = this.#shards.open(shard);
    return this.#hasIndex ? verifiedContents(file) : contentsOf(file);
  }

  /** Where the named tensors are, in the order given. */
  places(names: Iterable<string>): Map<string, TensorInFile> {
    this.#shards.requireOpen();
    requireNames(names);
    const placeOf = (wanted: string): TensorInFile =>
      this.lookUp(wanted, (file, name) => ({
        file,
        name,
        byteLength: tensorByteLength(file.info(name)),
      }));
    return new Map(Array.from(names, (name) => [name, placeOf(name)]));
  }

  /** What to fetch for all tensors. */
  allWorks(): ShardWork[] {
    return Array.from(this.#shards, (file) => {
      verifiedContents(file);
      const dataStart = isOther(file) ? 0 : file.dataStart;
      return { file, names: undefined, byteLength: file.byteLength - dataStart };
    });
  }

  /** What to fetch for some tensors, by shard; each tensor once, even if several names mean it. */
  works(places: ReadonlyMap<string, TensorInFile>): ShardWork[] {
    const lengthsByFile = new Map<Shard, Map<string, number>>();
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
