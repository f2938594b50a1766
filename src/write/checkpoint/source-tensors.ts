/**
 * All tensors of a safetensors checkpoint, straight from its headers, without objects and strings per tensor: there
 * may be a hundred thousand.
 */

import type { LazyShards } from '../../file/checkpoint/lazy-shards.js';
import { SafetensorsFile } from '../../file/file.js';
import type { JsonString } from '../../file/shards/checkpoint-index-writer.js';
import { takenEntries } from '../../file/shards/taken-entries.js';
import type { Header } from '../../header/header.js';
import { areSorted, type HeaderEntries, layOutEntries } from '../../header/header-copy.js';
import type { MetadataInput } from '../../header/header-writer.js';
import { DIGESTS_KEY, digestOf, digestsPlace } from '../../header/tensor-digests.js';
import type { LeasableStorage } from '../../tensor/storage/storage.js';
import type { Work } from '../../work/work.js';
import type { FilePayload } from '../input/tensor-input.js';
import type { WritableLayout } from '../save/tensor-writes.js';
import type { TensorTable } from './layout.js';

/** A shard. */
interface SourceShard {
  readonly header: Header;
  readonly storage: LeasableStorage;
  /** Position of its tensors' bytes in the storage. */
  readonly dataStart: number;
  /** Whether its tensors are compared with its digests. */
  readonly isCompared: boolean;
}

/** Bytes of neighbouring tensors, and their place in the data of the new file. */
interface PlacedRun {
  readonly begin: number;
  readonly spec: {
    readonly byteLength: number;
    readonly payload: FilePayload;
    /** The name, for a run of one tensor. */
    readonly name?: string;
  };
}

/**
 * Every tensor of every shard; of several with one name, the one that the index names. Shard by shard, in the order
 * of each file.
 */
export class SourceTensors implements TensorTable, HeaderEntries {
  readonly byteLengths: Float64Array;
  /** Names that several shards have. */
  readonly duplicates: readonly string[];
  readonly #shards: readonly SourceShard[];
  /** The shard of every tensor. */
  readonly #shardOf: Uint32Array;
  /** Its entry in the shard's header. */
  readonly #entryOf: Uint32Array;

  /**
   * Opens all shards, which must stay open. With `verify` tensors of shards with digests are compared with these; each
   * is then a separate run.
   *
   * @throws FormatError `SAFETENSORS_INDEX_MISMATCH` for a name of the index that no shard has
   */
  constructor(shards: LazyShards, verify: boolean) {
    this.#shards = Array.from(shards, (file) => {
      const { header, storage, begin } = SafetensorsFile.contentOf(file);
      const isCompared = verify && header.metadata?.has(DIGESTS_KEY) === true;
      const dataStart = begin + header.dataStart;
      // A shard is opened by path, so it lends its descriptor.
      return { header, storage: storage as LeasableStorage, dataStart, isCompared };
    });
    const { index, path } = shards.files;
    const headers = this.#shards.map(({ header }) => header);
    const { taken: isTaken, duplicates } = takenEntries(headers, index, path);
    this.duplicates = duplicates;
    const capacity = this.#shards.reduce((sum, { header }) => sum + header.size, 0);
    const byteLengths = new Float64Array(capacity);
    this.#shardOf = new Uint32Array(capacity);
    this.#entryOf = new Uint32Array(capacity);
    let size = 0;
    for (const [shard, { header }] of this.#shards.entries()) {
      const taken = isTaken[shard] as Uint8Array;
      for (let entry = 0; entry < header.size; entry++) {
        if (taken[entry] !== 1) continue;
        byteLengths[size] = header.end(entry) - header.begin(entry);
        this.#shardOf[size] = shard;
        this.#entryOf[size] = entry;
        size++;
      }
    }
    this.byteLengths = byteLengths.subarray(0, size);
  }

  header(number: number): Header {
    return this.#shard(number).header;
  }

  entry(number: number): number {
    return this.#entryOf[number] as number;
  }

  name(number: number): JsonString {
    const { header } = this.#shard(number);
    return { text: header.source, start: header.nameAt(this.entry(number)) };
  }

  /** Returns where a tensor's bytes are, and the digest of its file to compare them with. */
  payload(number: number): FilePayload {
    const { header, storage, dataStart, isCompared } = this.#shard(number);
    const entry = this.entry(number);
    const position = dataStart + header.begin(entry);
    if (!isCompared) return { kind: 'file', storage, position };
    const context = { path: storage.path, tensor: header.name(entry) };
    const hex = digestOf(header, entry, context) as string;
    return { kind: 'file', storage, position, digest: { hex, context } };
  }

  /** Keeps four bytes per tensor; with digests also its name and range. */
  *layOut(
    numbers: readonly number[],
    metadata: MetadataInput | null,
    hasDigests = false,
  ): Work<WritableLayout> {
    const laidOut = layOutEntries(this, numbers, metadata, hasDigests);
    const { header, numbers: order, byteLength } = laidOut;
    const placed = { [Symbol.iterator]: () => this.#runs(order) };
    if (!hasDigests) return { header, byteLength, placed };
    const tensors = Array.from(order, (number) => {
      const name = this.header(number).name(this.entry(number));
      return { name, byteLength: this.byteLengths[number] as number };
    });
    return { header, byteLength, placed, digests: digestsPlace(header, tensors) };
  }

  isInOrder(): boolean {
    return areSorted(this, this.byteLengths.length);
  }

  get samples(): { readonly payload: FilePayload }[] {
    const used = this.#shards.filter(({ header }) => header.size > 0);
    return used.map(({ storage, dataStart }) => ({
      payload: { kind: 'file', storage, position: dataStart },
    }));
  }

  /** Unless they are compared, tensors with contiguous bytes in a shard are one run. */
  *#runs(numbers: Uint32Array): Generator<PlacedRun, void, void> {
    let begin = 0;
    for (let i = 0; i < numbers.length; ) {
      const first = numbers[i] as number;
      const start = this.header(first).begin(this.entry(first));
      let end = start;
      do {
        end = this.header(first).end(this.entry(numbers[i] as number));
        i++;
      } while (i < numbers.length && this.#continues(numbers[i] as number, first, end));
      const payload = this.payload(first);
      const name = this.#shard(first).isCompared
        ? { name: this.header(first).name(this.entry(first)) }
        : {};
      yield { begin, spec: { byteLength: end - start, payload, ...name } };
      begin += end - start;
    }
  }

  /** Whether a tensor lies in the same shard as another and begins at this offset. */
  #continues(number: number, other: number, offset: number): boolean {
    if (this.#shard(number).isCompared || this.#shardOf[number] !== this.#shardOf[other])
      return false;
    return this.header(number).begin(this.entry(number)) === offset;
  }

  #shard(number: number): SourceShard {
    return this.#shards[this.#shardOf[number] as number] as SourceShard;
  }
}
