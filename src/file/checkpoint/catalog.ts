/**
 * The tensors of a checkpoint and their places: by the index, and by the shards where the index is not enough.
 */

import { requireString } from '../../errors/arguments.js';
import { type SafetensorsError, TensorNotFoundError } from '../../errors/errors.js';
import type { FileContents } from '../../header/file-contents.js';
import { tensorByteLength } from '../../header/tensor-spec.js';
import { forEachYielding, mapYielding } from '../../work/items.js';
import type { Work } from '../../work/work.js';
import { SafetensorsFile } from '../file.js';
import type { TensorPlace } from '../shards/aliases.js';
import { CheckpointContents } from '../shards/contents.js';
import { type ShardHeader, shardHeader, type TensorEntry, tensorEntries } from '../source/facts.js';
import { labelOf, type ShardFile } from './find-files.js';
import type { LazyShards } from './lazy-shards.js';
import { contentsOf, isOther, type Shard, verifiedContents } from './shard.js';
import { type ShardWork, type TensorInFile, worksOf } from './transfer-shards.js';

/** The tensors of an open checkpoint. After its close every method throws FileClosedError. */
export class Catalog {
  readonly #shards: LazyShards<Shard>;
  readonly #contents: CheckpointContents;

  /** Without an index there is one shard, whose contents replace the index. `problems` as for `CheckpointContents`. */
  constructor(shards: LazyShards<Shard>, problems: readonly SafetensorsError[]) {
    this.#shards = shards;
    const { files } = shards;
    const only = (): FileContents => contentsOf(shards.open(0));
    this.#contents = new CheckpointContents(files.index, labelOf(files), only, problems);
  }

  /** Number of tensors; by the index, if any. */
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

  /** Returns the shard of a tensor or an alias, and its name there, by the index if any; null for other names. */
  find(name: string): TensorPlace | null {
    requireString('name', name);
    this.#shards.requireOpen();
    return this.#contents.find(name);
  }

  /**
   * Opens the shard of a tensor or an alias, and returns what `use` returns for it, with its name in
   * the shard.
   *
   * @throws TensorNotFoundError; FormatError `SAFETENSORS_INDEX_MISMATCH` when the shard lacks it
   */
  lookUp<Result>(wanted: string, use: (file: Shard, name: string) => Result): Result {
    return this.#lookUpAt(this.#placeOf(wanted), wanted, use);
  }

  /** As above, for a tensor of a known place. */
  #lookUpAt<Result>(
    { shard, name }: TensorPlace,
    wanted: string,
    use: (file: Shard, name: string) => Result,
  ): Result {
    const file = this.#shards.open(shard);
    try {
      return use(file, name);
    } catch (error) {
      if (!(error instanceof TensorNotFoundError)) throw error;
      if (this.#hasIndex) throw this.#contents.missing(shard, name);
      throw this.#contents.notFound(wanted);
    }
  }

  /**
   * As `find`. Without an index, leaves a name that cannot be an alias to the file.
   *
   * @throws TensorNotFoundError
   */
  #placeOf(wanted: string): TensorPlace {
    requireString('name', wanted);
    const isPlain = !this.#hasIndex && this.metadata?.has(wanted) !== true;
    const found = isPlain ? { shard: 0, name: wanted } : this.find(wanted);
    if (found === null) throw this.#contents.notFound(wanted);
    return found;
  }

  get #hasIndex(): boolean {
    return this.#shards.files.index !== null;
  }

  /** Returns the names of a shard in its order; opens it. */
  namesIn(shard: number): string[] {
    return this.#contents.namesIn(shard, this.#contentsOf(shard));
  }

  /** All tensors, shard by shard, in the order of each; opens all shards. */
  *tensors(): Work<TensorEntry[]> {
    return (yield* this.#tensorsByShard()).flat();
  }

  *#tensorsByShard(): Work<TensorEntry[][]> {
    yield* this.#shards.openAll();
    const lists: TensorEntry[][] = [];
    for (const [shard, { name }] of this.#shards.files.shards.entries()) {
      const contents = this.#contentsOf(shard);
      lists.push(yield* tensorEntries(contents, name, this.#contents.entriesIn(shard, contents)));
    }
    return lists;
  }

  /** The headers of all shards of safetensors; empty for other formats. */
  *headers(): Work<ShardHeader[]> {
    const headers: ShardHeader[] = [];
    const { shards } = this.#shards.files;
    yield* this.#shards.lendEach(function* (file, shard) {
      if (isOther(file)) return;
      const { name } = shards[shard] as ShardFile;
      headers[shard] = yield* shardHeader(SafetensorsFile.headerOf(file), name);
    });
    return headers;
  }

  /** The metadata of all shards. Opens every shard. */
  *metadataOfFiles(): Work<(ReadonlyMap<string, string> | null)[]> {
    yield* this.#shards.openAll();
    return this.#shards.files.shards.map((_, shard) => this.#contentsOf(shard).metadata);
  }

  /** The contents of a shard as they were read, even after it has changed. */
  #contentsOf(shard: number): FileContents {
    return contentsOf(this.#shards.open(shard));
  }

  /**
   * Returns the places of the named tensors, in the order given, or of all in the order of `tensors`. Opens their
   * shards, unless a name is unknown.
   */
  *places(names: readonly string[] | undefined): Work<Map<string, TensorInFile>> {
    this.#shards.requireOpen();
    return yield* names === undefined ? this.#allPlaces() : this.#placesOf(names);
  }

  *#allPlaces(): Work<Map<string, TensorInFile>> {
    const places = new Map<string, TensorInFile>();
    for (const [shard, tensors] of (yield* this.#tensorsByShard()).entries()) {
      const file = this.#shards.open(shard);
      for (const { name, byteLength } of tensors) places.set(name, { file, name, byteLength });
      yield;
    }
    return places;
  }

  *#placesOf(names: readonly string[]): Work<Map<string, TensorInFile>> {
    const found = yield* mapYielding(names, (wanted) => ({ wanted, place: this.#placeOf(wanted) }));
    yield* this.#shards.openAll(new Set(found.map(({ place }) => place.shard)));
    const places = new Map<string, TensorInFile>();
    const placeIn = (file: Shard, name: string): TensorInFile => {
      return { file, name, byteLength: tensorByteLength(file.info(name)) };
    };
    yield* forEachYielding(found, ({ wanted, place }) => {
      places.set(wanted, this.#lookUpAt(place, wanted, placeIn));
    });
    return places;
  }

  /** Plans what to fetch for these tensors, all by default; opens their shards. */
  *works(names: readonly string[] | undefined): Work<ShardWork[]> {
    if (names !== undefined) return yield* worksOf(yield* this.places(names));
    yield* this.#shards.openAll();
    return Array.from(this.#shards, (file) => {
      verifiedContents(file);
      const dataStart = isOther(file) ? 0 : file.dataStart;
      return { file, names: undefined, byteLength: file.byteLength - dataStart };
    });
  }
}
