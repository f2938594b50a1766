/** The tensors of a checkpoint: by its index, else by the header of its only file. */

import { FormatError, quoteName, type SafetensorsError } from '../../errors/errors.js';
import { tensorNotFound } from '../../errors/tensor-not-found.js';
import type { FileContents } from '../../header/file-contents.js';
import { locateTensor, type TensorPlace, type WrittenTensors } from './aliases.js';
import type { CheckpointIndex } from './checkpoint-index.js';

/** The error for a tensor that is not in its shard, although the index at `path` says so. */
export function missingTensor(
  path: string | undefined,
  shard: string,
  tensor: string,
): FormatError {
  const message = `expected the tensor in ${quoteName(shard)}, as the index lists it, found none`;
  return new FormatError('SAFETENSORS_INDEX_MISMATCH', message, { path, tensor });
}

/** Answers from the index, or from the header of the only file, without opening other shards. */
export class CheckpointContents implements WrittenTensors {
  readonly #index: CheckpointIndex | null;
  readonly #path: string | undefined;
  readonly #only: () => FileContents;
  readonly #problems: ReadonlyMap<string, SafetensorsError>;

  /**
   * `path`, of the index or the only file, is for errors. `only` returns the contents of the only file, and may throw.
   * `problems` are the errors of tensors that the index or the file lists and that are not available.
   */
  constructor(
    index: CheckpointIndex | null,
    path: string | undefined,
    only: () => FileContents,
    problems: readonly SafetensorsError[] = [],
  ) {
    this.#index = index;
    this.#path = path;
    this.#only = only;
    this.#problems = new Map(problems.map((problem) => [problem.tensor ?? '', problem]));
  }

  /** Number of tensors. */
  get size(): number {
    // The contents of a file leave out tensors that cannot be read.
    const index = this.#index;
    if (index === null) return this.#only().size;
    const listed = [...this.#problems.keys()].filter((name) => index.find(name) !== -1);
    return index.size - listed.length;
  }

  /** Metadata of the index or of the only file. */
  get metadata(): ReadonlyMap<string, string> | null {
    return (this.#index ?? this.#only()).metadata;
  }

  /** Names sorted by their UTF-8 bytes; a new array. */
  keys(): string[] {
    if (this.#index === null) return this.#only().sortedNames();
    const names = this.#index.sortedNames();
    return this.#problems.size === 0 ? names : names.filter((name) => !this.#problems.has(name));
  }

  /** The shard of a name, not of an alias; -1 for an unknown name. */
  shardOf(name: string): number {
    const index = this.#index;
    if (index === null) return this.#only().find(name) === -1 ? -1 : 0;
    if (this.#problems.has(name)) return -1;
    const entry = index.find(name);
    return entry === -1 ? -1 : index.shardOf(entry);
  }

  /** Shard and name there of a tensor or an alias; null for neither. */
  find(name: string): TensorPlace | null {
    return locateTensor(this, name);
  }

  /** The names that are in a shard, in the order of its tensors' bytes; its contents must be given. */
  namesIn(shard: number, contents: FileContents): string[] {
    if (this.#index === null) return contents.names();
    return Array.from(this.entriesIn(shard, contents), (entry) => contents.name(entry));
  }

  /** The same as entries of the contents. */
  entriesIn(shard: number, contents: FileContents): Iterable<number> {
    const index = this.#index;
    if (index === null) return Array(contents.size).keys();
    const places = index.placesIn(shard, contents).slice().sort();
    if (places[0] !== -1) return places;
    this.#requireOthers(index, shard, contents);
    return places.subarray(places.lastIndexOf(-1) + 1);
  }

  /** Throws for a tensor that is not in its shard, unless it is known that it cannot be had. */
  #requireOthers(index: CheckpointIndex, shard: number, contents: FileContents): void {
    const places = index.placesIn(shard, contents);
    for (const [i, entry] of index.entriesOf(shard).entries()) {
      const name = index.name(entry);
      if (places[i] === -1 && !this.#problems.has(name)) throw this.missing(shard, name);
    }
  }

  /** The error for a tensor that is not in its shard. */
  missing(shard: number, tensor: string): FormatError {
    const { shards } = this.#index as CheckpointIndex;
    return missingTensor(this.#path, shards[shard] as string, tensor);
  }

  /** The error for a name that is neither a tensor nor an alias: its own when there is such a tensor. */
  notFound(name: string): SafetensorsError {
    const problem = this.#problems.get(name);
    if (problem !== undefined) return problem;
    const names = (this.#index ?? this.#only()).names();
    return tensorNotFound(name, names, { path: this.#path });
  }
}
