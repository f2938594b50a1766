/**
 * The tensors that `reshard` takes, straight from the headers of the source: no need to make a hundred
 * thousand `Tensor` objects.
 */

import { SafetensorsFile } from '../../file/file.js';
import type { Dtype } from '../../format/dtype.js';
import type { Header } from '../../format/header.js';
import type { Placed } from '../../format/header-writer.js';
import type { FilePayload, TensorEntry } from '../../save/tensor-input.js';
import type { WritableLayout } from '../../save/tensor-writes.js';
import type { CheckpointIndex } from '../../shards/checkpoint-index.js';
import type { LendingStorage } from '../../storage/storage.js';
import type { LazyShards } from '../lazy-shards.js';
import type { TensorTable } from './plan.js';

/** A shard. */
interface SourceShard {
  readonly header: Header;
  readonly storage: LendingStorage;
}

/** A tensor in its shard. Only its name is decoded and kept; the rest is read from the header. */
class SourceTensor implements TensorEntry<FilePayload> {
  /** Number in the table. */
  readonly number: number;
  readonly name: string;
  readonly #shard: SourceShard;
  readonly #entry: number;

  constructor(number: number, shard: SourceShard, entry: number) {
    this.number = number;
    this.name = shard.header.name(entry);
    this.#shard = shard;
    this.#entry = entry;
  }

  get dtype(): Dtype {
    return this.#shard.header.dtype(this.#entry);
  }

  get shape(): readonly number[] {
    return this.#shard.header.shape(this.#entry);
  }

  get byteLength(): number {
    return byteLengthOf(this.#shard, this.#entry);
  }

  get payload(): FilePayload {
    return payloadOf(this.#shard, this.#entry);
  }
}

function byteLengthOf({ header }: SourceShard, entry: number): number {
  return header.end(entry) - header.begin(entry);
}

function payloadOf({ header, storage }: SourceShard, entry: number): FilePayload {
  const position = header.dataStart + header.begin(entry);
  return { kind: 'file', storage, position };
}

/**
 * Every tensor that a shard has; of several with one name, the one that the index means. Shard by
 * shard, in the order of each file.
 */
export class SourceTensors implements TensorTable<SourceTensor> {
  readonly size: number;
  readonly #shards: readonly SourceShard[];
  /** The shard of every tensor. */
  readonly #shardOf: Uint32Array;
  /** Its entry in the shard's header. */
  readonly #entryOf: Uint32Array;

  /**
   * Opens all shards, which must stay open.
   *
   * @throws FormatError `SAFETENSORS_INDEX_MISMATCH` for a name of the index that no shard has
   */
  constructor(shards: LazyShards) {
    this.#shards = Array.from(shards, (file) => {
      const { header, storage } = SafetensorsFile.contentOf(file);
      // Whatever is opened by its path lends its descriptor.
      return { header, storage: storage as LendingStorage };
    });
    const capacity = this.#shards.reduce((sum, { header }) => sum + header.size, 0);
    this.#shardOf = new Uint32Array(capacity);
    this.#entryOf = new Uint32Array(capacity);
    let size = 0;
    for (const [shard, entry] of chosen(this.#shards, shards)) {
      this.#shardOf[size] = shard;
      this.#entryOf[size] = entry;
      size++;
    }
    this.size = size;
  }

  byteLength(number: number): number {
    return byteLengthOf(this.#shard(number), this.#entry(number));
  }

  name(number: number): string {
    return this.#shard(number).header.name(this.#entry(number));
  }

  entry(number: number): SourceTensor {
    return new SourceTensor(number, this.#shard(number), this.#entry(number));
  }

  /** Keeps four bytes per tensor. */
  keep(placed: readonly Placed<SourceTensor>[]): WritableLayout['placed'] {
    const numbers = Uint32Array.from(placed, ({ spec }) => spec.number);
    return { [Symbol.iterator]: () => this.#place(numbers) };
  }

  get samples(): { readonly payload: FilePayload }[] {
    const used = this.#shards.filter(({ header }) => header.size > 0);
    return used.map((shard) => ({ payload: payloadOf(shard, 0) }));
  }

  *#place(numbers: Uint32Array): ReturnType<WritableLayout['placed'][typeof Symbol.iterator]> {
    let begin = 0;
    for (const number of numbers) {
      const shard = this.#shard(number);
      const entry = this.#entry(number);
      const byteLength = byteLengthOf(shard, entry);
      yield { begin, spec: { byteLength, payload: payloadOf(shard, entry) } };
      begin += byteLength;
    }
  }

  #shard(number: number): SourceShard {
    return this.#shards[this.#shardOf[number] as number] as SourceShard;
  }

  #entry(number: number): number {
    return this.#entryOf[number] as number;
  }
}

/** Shard and entry of every tensor to be taken. */
function* chosen(
  shards: readonly SourceShard[],
  files: LazyShards,
): Generator<[shard: number, entry: number], void, void> {
  const { index } = files.files;
  const { meant, missing } = meantByIndex(shards, index);
  const strays = new Set<string>();
  for (const [shard, { header }] of shards.entries()) {
    for (let entry = 0; entry < header.size; entry++) {
      if (meant[shard]?.[entry] !== 1) {
        const name = header.name(entry);
        const isElsewhere = index !== null && index.find(name) !== -1 && !missing.has(name);
        if (isElsewhere || strays.size === strays.add(name).size) continue;
      }
      yield [shard, entry];
    }
  }
  for (const [name, shard] of missing) if (!strays.has(name)) throw files.missing(shard, name);
}

/**
 * 1 for every entry of a shard that the index names there; and the names that the index has and the
 * shard lacks, with the shard.
 */
function meantByIndex(
  shards: readonly SourceShard[],
  index: CheckpointIndex | null,
): { meant: Uint8Array[]; missing: Map<string, number> } {
  const missing = new Map<string, number>();
  const meant = shards.map(({ header }, shard) => {
    const isMeant = new Uint8Array(header.size);
    if (index === null) return isMeant.fill(1);
    for (const [entry, place] of index.placesIn(shard, header)) {
      if (place === -1) missing.set(index.name(entry), shard);
      else isMeant[place] = 1;
    }
    return isMeant;
  });
  return { meant, missing };
}
