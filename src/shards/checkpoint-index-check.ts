/** Compares an index with the headers of its shards, both ways, wherever these come from. */

import { FormatError, quoteName } from '../errors/errors.js';
import type { Header } from '../format/header.js';
import type { CheckpointIndex } from './checkpoint-index.js';

/** How many problems the error lists; all are counted. */
const SHOWN_PROBLEMS = 20;

/** One comparison: every shard is added once, then `finish` tells the problems. */
export class IndexCheck {
  readonly #index: CheckpointIndex | null;
  readonly #path: string;
  #byteLength = 0;
  #count = 0;
  readonly #shown: string[] = [];
  #hasUnreadable = false;
  #cause: unknown;

  /** Without an index there is nothing to compare, but shards can be unreadable. */
  constructor(index: CheckpointIndex | null, path: string) {
    this.#index = index;
    this.#path = path;
  }

  /** A shard, by its position in the index. */
  add(shard: number, header: Header): void {
    this.#byteLength += header.dataByteLength;
    if (this.#index !== null) this.#compareNames(this.#index, shard, header);
  }

  /** A shard whose header could not be read. */
  addUnreadable(error: Error): void {
    this.#hasUnreadable = true;
    this.#cause ??= error;
    this.#addProblem(() => error.message);
  }

  /**
   * To be called when all shards were added.
   *
   * @throws FormatError `SAFETENSORS_INDEX_MISMATCH` with a list of what is wrong
   */
  finish(): void {
    this.#compareSize(this.#index?.metadata?.get('total_size') ?? '');
    if (this.#count === 0) return;
    const more = this.#count - this.#shown.length;
    const rest = more > 0 ? `; and ${more} more` : '';
    const noun = this.#count === 1 ? 'problem' : 'problems';
    throw new FormatError(
      'SAFETENSORS_INDEX_MISMATCH',
      `expected index and shards to agree, found ${this.#count} ${noun}: ${this.#shown.join('; ')}${rest}`,
      { path: this.#path, cause: this.#cause },
    );
  }

  #compareNames(index: CheckpointIndex, shard: number, header: Header): void {
    const places = index.placesIn(shard, header);
    const isComplete = !places.includes(-1);
    // Names are unique on both sides: when all were found and the numbers are equal, none is left.
    if (isComplete && places.length === header.size) return;
    const shardName = quoteName(index.shards[shard] as string);
    for (const [i, entry] of index.entriesOf(shard).entries()) {
      if (places[i] !== -1) continue;
      this.#addProblem(() => `tensor ${quoteName(index.name(entry))} is not in ${shardName}`);
    }
    for (let entry = 0; entry < header.size; entry++) {
      const name = header.name(entry);
      const indexed = index.find(name);
      const own = indexed === -1 ? -1 : index.shardOf(indexed);
      if (own === shard) continue;
      this.#addProblem(() => {
        const tensor = `tensor ${quoteName(name)}`;
        if (own === -1) return `${tensor} of ${shardName} is not in the index`;
        const other = quoteName(index.shards[own] as string);
        return `${tensor} is in ${shardName}, but the index says ${other}`;
      });
    }
  }

  /** Some writers spell the number as 5.0, or as a string; text that is no number tells nothing. */
  #compareSize(totalSize: string): void {
    const size = totalSize.trim() === '' ? Number.NaN : Number(totalSize);
    if (this.#hasUnreadable || Number.isNaN(size) || size === this.#byteLength) return;
    this.#addProblem(
      () => `total_size is ${totalSize}, but the tensors have ${this.#byteLength} bytes`,
    );
  }

  /** The text is made only when it will be shown. */
  #addProblem(describe: () => string): void {
    if (this.#count++ < SHOWN_PROBLEMS) this.#shown.push(describe());
  }
}
