/** Compares an index with the headers of its shards, both ways, wherever these come from. */

import { quoteName } from '../../errors/errors.js';
import type { FileContents } from '../../header/file-contents.js';
import type { CheckpointIndex } from './checkpoint-index.js';
import { problemOf } from './file-problems.js';
import type { CheckpointProblem } from './verification-report.js';

/** The contents of a shard, and the length of its tensors. */
export interface CheckedContents extends FileContents {
  readonly dataByteLength: number;
}

/** A tensor that is not in the shard that the index names. */
export function missingTensor(file: string, tensor: string): CheckpointProblem {
  const message = `tensor ${quoteName(tensor)} of the index is missing`;
  return { file, tensor, code: 'SAFETENSORS_INDEX_MISMATCH', message };
}

/** One comparison: add every shard once, then `finish` returns the problems. */
export class IndexCheck {
  readonly #index: CheckpointIndex | null;
  readonly #name: string;
  readonly #shards: readonly string[];
  readonly #problems: CheckpointProblem[] = [];
  #byteLength = 0;
  #hasUnreadable = false;

  /**
   * Without an index there is nothing to compare, but files can be unreadable. `name` is that of the index
   * or of the only file.
   */
  constructor(index: CheckpointIndex | null, name: string, shards: readonly string[]) {
    this.#index = index;
    this.#name = name;
    this.#shards = shards;
  }

  /** A shard, by its position in the index. */
  add(shard: number, header: CheckedContents): void {
    this.#byteLength += header.dataByteLength;
    if (this.#index !== null) this.#compareNames(this.#index, shard, header);
  }

  /** A shard whose header could not be read. */
  addUnreadable(shard: number, error: Error): void {
    this.#hasUnreadable = true;
    this.#problems.push(problemOf(this.#shards[shard] ?? this.#name, error));
  }

  /** To be called when all shards were added. */
  finish(): CheckpointProblem[] {
    this.#compareSize(this.#index?.metadata?.get('total_size') ?? '');
    return this.#problems;
  }

  #compareNames(index: CheckpointIndex, shard: number, header: FileContents): void {
    const places = index.placesIn(shard, header);
    const isComplete = !places.includes(-1);
    // Names are unique on both sides: when all were found and the numbers are equal, none is left.
    if (isComplete && places.length === header.size) return;
    const file = index.shards[shard] as string;
    for (const [i, entry] of index.entriesOf(shard).entries()) {
      if (places[i] !== -1) continue;
      this.#problems.push(missingTensor(file, index.name(entry)));
    }
    for (let entry = 0; entry < header.size; entry++) {
      const name = header.name(entry);
      const indexed = index.find(name);
      const own = indexed === -1 ? -1 : index.shardOf(indexed);
      if (own === shard) continue;
      const tensor = `tensor ${quoteName(name)}`;
      const other = quoteName(index.shards[own] ?? '');
      const message =
        own === -1
          ? `${tensor} is missing in the index`
          : `${tensor} belongs to another shard by the index: ${other}`;
      this.#add(file, name, message);
    }
  }

  /** Some writers spell the number as 5.0, or as a string; other text tells nothing. */
  #compareSize(totalSize: string): void {
    const size = totalSize.trim() === '' ? Number.NaN : Number(totalSize);
    if (this.#hasUnreadable || Number.isNaN(size) || size === this.#byteLength) return;
    const message = `total_size is ${totalSize}, but the tensors have ${this.#byteLength} bytes`;
    this.#add(this.#name, null, message);
  }

  #add(file: string, tensor: string | null, message: string): void {
    this.#problems.push({ file, tensor, code: 'SAFETENSORS_INDEX_MISMATCH', message });
  }
}
