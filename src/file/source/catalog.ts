/** The tensors of a checkpoint and their places: by the index, and by the contents of its shards. */

import { requireString } from '../../errors/arguments.js';
import type { SafetensorsError } from '../../errors/errors.js';
import { Header } from '../../header/header.js';
import { forEachYielding, mapYielding } from '../../work/items.js';
import type { Work } from '../../work/work.js';
import type { TensorPlace } from '../shards/aliases.js';
import type { CheckpointIndex } from '../shards/checkpoint-index.js';
import { CheckpointContents } from '../shards/contents.js';
import {
  allEntries,
  type ListedContents,
  type ShardHeader,
  shardHeader,
  type TensorEntry,
  type TensorInfo,
  tensorInfo,
} from './tensor-info.js';

/** The files of a checkpoint, or the tensors of a view in their place; shards by position. */
export interface CatalogFiles {
  /** Path of the index or of the only file, for errors; undefined for bytes. */
  readonly path: string | undefined;
  /** Null when there is one shard, whose contents are those of `onlyContents`. */
  readonly index: CheckpointIndex | null;
  /** Names of the shards. */
  readonly names: readonly string[];
  /** Throws FileClosedError after the close. */
  requireOpen(): void;
  /** The contents of the only shard, which opening has read. */
  onlyContents(): ListedContents;
  /**
   * The contents of some shards, in this order: opens files, which stay open, or fetches headers. They are those of the
   * opening, even after the file has changed.
   */
  contentsOf(shards: readonly number[]): Work<ListedContents[]>;
  /** The contents of all shards; closes the files that it opened. */
  allContents(): Work<ListedContents[]>;
}

/** Files whose tensors are counted. */
export interface CountedFiles extends CatalogFiles {
  /** The contents of all shards and the parsed `config.json`, for counts only: undefined when it cannot be read. */
  contentsAndConfig(): Work<{ contents: readonly ListedContents[]; config: unknown }>;
}

/** A tensor, by the contents of its shard. */
export interface LocatedTensor extends TensorPlace {
  readonly contents: ListedContents;
  readonly entry: number;
}

/** The tensors of local and remote checkpoints and of views. After the close every method throws FileClosedError. */
export class Catalog {
  readonly #files: CatalogFiles;
  readonly #contents: CheckpointContents;

  /** `problems` as for `CheckpointContents`. */
  constructor(files: CatalogFiles, problems: readonly SafetensorsError[]) {
    this.#files = files;
    const only = (): ListedContents => files.onlyContents();
    this.#contents = new CheckpointContents(files.index, files.path, only, problems);
  }

  /** Number of tensors; by the index, if any. */
  get size(): number {
    this.#files.requireOpen();
    return this.#contents.size;
  }

  /** The index's metadata, else that of the only shard. */
  get metadata(): ReadonlyMap<string, string> | null {
    this.#files.requireOpen();
    return this.#contents.metadata;
  }

  /** Names sorted by their UTF-8 bytes. */
  keys(): string[] {
    this.#files.requireOpen();
    return this.#contents.keys();
  }

  /** Returns the shard of a tensor or an alias, and its name there, by the index if any; null for other names. */
  find(name: string): TensorPlace | null {
    requireString('name', name);
    this.#files.requireOpen();
    return this.#contents.find(name);
  }

  /**
   * As `find`.
   *
   * @throws TensorNotFoundError; the error of a tensor that cannot be read
   */
  place(name: string): TensorPlace {
    const found = this.find(name);
    if (found === null) throw this.notFound(name);
    return found;
  }

  /** The error for a name that is neither a tensor nor an alias. */
  notFound(name: string): SafetensorsError {
    return this.#contents.notFound(name);
  }

  /** The entries of a shard's tensors, in the order of their bytes; its contents must be given. */
  entriesIn(shard: number, contents: ListedContents): Iterable<number> {
    return this.#contents.entriesIn(shard, contents);
  }

  /**
   * Returns the entry of a tensor in the contents of its shard.
   *
   * @throws As `missing`, when the shard lacks it
   */
  entryIn(place: TensorPlace, contents: ListedContents): number {
    const entry = contents.find(place.name);
    return entry === -1 ? this.missing(place) : entry;
  }

  /** Throws the FormatError `SAFETENSORS_INDEX_MISMATCH` for a tensor that its shard lacks. */
  missing({ shard, name }: TensorPlace): never {
    throw this.#contents.missing(shard, name);
  }

  /**
   * Locates a tensor or an alias; reads the contents of its shard.
   *
   * @throws As `place` and `entryIn`; FormatError when the shard is bad
   */
  *locate(name: string): Work<LocatedTensor> {
    const place = this.place(name);
    const [contents] = yield* this.#files.contentsOf([place.shard]);
    return this.#located(place, contents as ListedContents);
  }

  #located(place: TensorPlace, contents: ListedContents): LocatedTensor {
    const { shard, name } = place;
    return { shard, name, contents, entry: this.entryIn(place, contents) };
  }

  /**
   * Locates the named tensors, in the order given, or all in the order of `tensors`. Reads the contents of their
   * shards, unless a name is unknown.
   */
  *locateAll(names: readonly string[] | undefined): Work<[name: string, tensor: LocatedTensor][]> {
    this.#files.requireOpen();
    return yield* names === undefined ? this.#locateEach() : this.#locateNamed(names);
  }

  *#locateEach(): Work<[name: string, tensor: LocatedTensor][]> {
    const found: [name: string, tensor: LocatedTensor][] = [];
    for (const [shard, contents] of (yield* this.#openContents()).entries()) {
      yield* forEachYielding(this.entriesIn(shard, contents), (entry) => {
        const name = contents.name(entry);
        found.push([name, { shard, name, contents, entry }]);
      });
    }
    return found;
  }

  *#locateNamed(names: readonly string[]): Work<[name: string, tensor: LocatedTensor][]> {
    const places = yield* mapYielding(names, (name) => this.place(name));
    const shards = [...new Set(places.map(({ shard }) => shard))];
    const read = yield* this.#files.contentsOf(shards);
    const byShard = new Map(shards.map((shard, i) => [shard, read[i] as ListedContents]));
    return yield* mapYielding(names.entries(), ([i, name]) => {
      const place = places[i] as TensorPlace;
      return [name, this.#located(place, byShard.get(place.shard) as ListedContents)];
    });
  }

  /** Dtype, shape and place of a tensor. Throws as `locate`. */
  *info(name: string): Work<TensorInfo> {
    const { contents, entry } = yield* this.locate(name);
    return tensorInfo(contents, entry);
  }

  /** Names of a shard's tensors, in the order of their bytes. */
  *namesIn(shard: number): Work<string[]> {
    const [contents] = yield* this.#files.contentsOf([shard]);
    return this.#contents.namesIn(shard, contents as ListedContents);
  }

  /** Names shard by shard, in the order of the tensors' bytes; reads the contents of all shards. */
  *offsetKeys(): Work<string[]> {
    const all = yield* this.#openContents();
    return all.flatMap((contents, shard) => this.#contents.namesIn(shard, contents));
  }

  /** All tensors, shard by shard, in the order of each; reads the contents of all shards. */
  *tensors(): Work<TensorEntry[]> {
    const lists: (readonly TensorEntry[])[] = [];
    for (const [shard, contents] of (yield* this.#openContents()).entries()) {
      const all = yield* allEntries(contents, this.#files.names[shard] as string);
      const entries = [...this.entriesIn(shard, contents)];
      const isAll = entries.length === all.length;
      lists.push(isAll ? all : entries.map((entry) => all[entry] as TensorEntry));
    }
    return lists.flat();
  }

  /** The headers of all shards of safetensors; empty for other formats and for views. */
  *headers(): Work<ShardHeader[]> {
    const headers: ShardHeader[] = [];
    for (const [shard, contents] of (yield* this.#files.allContents()).entries()) {
      if (!(contents instanceof Header)) continue;
      headers.push(yield* shardHeader(contents, this.#files.names[shard] as string));
    }
    return headers;
  }

  /** The metadata of all shards. */
  *metadataOfFiles(): Work<(ReadonlyMap<string, string> | null)[]> {
    return Array.from(yield* this.#openContents(), ({ metadata }) => metadata);
  }

  #openContents(): Work<ListedContents[]> {
    this.#files.requireOpen();
    return this.#files.contentsOf([...this.#files.names.keys()]);
  }
}
