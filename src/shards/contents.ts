/** Which tensors a checkpoint has: by the index, else by the header of its only file. */

import { FormatError, quoteName, TensorNotFoundError } from '../errors/errors.js';
import { nearNames } from '../errors/near-names.js';
import type { Header } from '../format/header.js';
import { locateTensor, type TensorPlace, type WrittenTensors } from './aliases.js';
import type { CheckpointIndex } from './checkpoint-index.js';

/** The error for a tensor that is not in its shard, although the index at `path` says so. */
export function missingTensor(path: string, shard: string, tensor: string): FormatError {
  const message = `expected the tensor in ${quoteName(shard)}, as the index says, found none`;
  return new FormatError('SAFETENSORS_INDEX_MISMATCH', message, { path, tensor });
}

/** Answers what needs no shard but the only one. */
export class CheckpointContents implements WrittenTensors {
  readonly #index: CheckpointIndex | null;
  readonly #path: string;
  readonly #only: () => Header;

  /** `path` is that of the index or of the only file; `only` gives its header, and may throw. */
  constructor(index: CheckpointIndex | null, path: string, only: () => Header) {
    this.#index = index;
    this.#path = path;
    this.#only = only;
  }

  /** Number of tensors. */
  get size(): number {
    return (this.#index ?? this.#only()).size;
  }

  /** Metadata of the index or of the only file. */
  get metadata(): ReadonlyMap<string, string> | null {
    return (this.#index ?? this.#only()).metadata;
  }

  /** Names sorted by their UTF-8 bytes; a new array. */
  keys(): string[] {
    return (this.#index ?? this.#only()).sortedNames();
  }

  /** The shard of a name that is no alias; -1 when there is none. */
  shardOf(name: string): number {
    const index = this.#index;
    if (index === null) return this.#only().find(name) === -1 ? -1 : 0;
    const entry = index.find(name);
    return entry === -1 ? -1 : index.shardOf(entry);
  }

  /** Shard and name there of a tensor or an alias; null for neither. */
  find(name: string): TensorPlace | null {
    return locateTensor(this, name);
  }

  /** The names that are in a shard, in the order of its tensors' bytes; its header must be given. */
  namesIn(shard: number, header: Header): string[] {
    if (this.#index === null) return header.names();
    return Array.from(this.entriesIn(shard, header), (entry) => header.name(entry));
  }

  /** The same as entries of the header. */
  entriesIn(shard: number, header: Header): Iterable<number> {
    const index = this.#index;
    if (index === null) return Array(header.size).keys();
    const places = index.placesIn(shard, header);
    const missing = places.indexOf(-1);
    if (missing !== -1) {
      throw this.missing(shard, index.name(index.entriesOf(shard)[missing] as number));
    }
    return places.sort();
  }

  /** The error for a tensor that is not in its shard. */
  missing(shard: number, tensor: string): FormatError {
    const { shards } = this.#index as CheckpointIndex;
    return missingTensor(this.#path, shards[shard] as string, tensor);
  }

  /** The error for a name that is neither a tensor nor an alias. */
  notFound(name: string): TensorNotFoundError {
    const names = (this.#index ?? this.#only()).names();
    return new TensorNotFoundError(name, nearNames(name, names), { path: this.#path });
  }
}
