/** Finds a key that an object has twice. */

import { hashString, processHashKey } from './key-hash.js';
import { slotCount, tagMask } from './name-table.js';
import { CLOSE_BRACE, type JsonReader } from './reader.js';
import { skipValue } from './skip.js';
import { compareStrings } from './strings.js';

/** Up to this many keys of an object are compared with each other; more go through a table. */
const FEW_KEYS = 16;

/** The keys of one object, noted while it is read and compared afterwards. */
export class ObjectKeys {
  readonly #starts: Uint32Array = new Uint32Array(FEW_KEYS);
  #count = 0;

  /** Forgets the keys: the next object begins. */
  clear(): void {
    this.#count = 0;
  }

  /** Notes the key that begins at `start`. Callers may leave out keys that are known to be unique. */
  add(start: number): void {
    // A write after the end of a typed array does nothing.
    this.#starts[this.#count++] = start;
  }

  /**
   * Position of the first key that repeats an earlier one; -1 when all differ. An object of many
   * keys, which begins at `objectAt` and is valid, is read again; the reader returns to its place.
   */
  findRepeated(reader: JsonReader, objectAt: number): number {
    return this.#count > FEW_KEYS
      ? findRepeatedKey(reader, objectAt, this.#count)
      : this.#compareAll(reader.bytes);
  }

  /** Whether `key`, which ends with a quote, is among the first keys. */
  includes(bytes: Uint8Array, key: Uint8Array): boolean {
    const starts = this.#starts.subarray(0, this.#count);
    return starts.some((start) => compareStrings(bytes, start, key, 0) === 0);
  }

  #compareAll(bytes: Uint8Array): number {
    for (let i = 1; i < this.#count; i++) {
      const start = this.#starts[i] as number;
      for (let j = 0; j < i; j++) {
        if (compareStrings(bytes, this.#starts[j] as number, bytes, start) === 0) return start;
      }
    }
    return -1;
  }
}

/** Keys that wait to be looked up together, with their hashes. */
const BATCH_SIZE = 64;
const starts = new Uint32Array(BATCH_SIZE);
const hashes = new Uint32Array(BATCH_SIZE);

/**
 * Looks up each key of the object in a hash table of those before it. A batch of lookups lets the
 * processor overlap its waits for memory: with ten million keys that is three times as fast.
 */
function findRepeatedKey(reader: JsonReader, objectAt: number, count: number): number {
  const { bytes, at: after } = reader;
  const hashKey = processHashKey(bytes.length);
  const slots = new Uint32Array(slotCount(count));
  let waiting = 0;
  let repeatedAt = -1;
  let hasNext: boolean;
  reader.at = objectAt;
  reader.enter(CLOSE_BRACE);
  do {
    const start = reader.readKey();
    starts[waiting] = start;
    hashes[waiting] = hashString(reader, start, hashKey);
    waiting++;
    skipValue(reader, 0);
    hasNext = reader.hasNext(CLOSE_BRACE);
    if (waiting === BATCH_SIZE || !hasNext) {
      repeatedAt = addBatch(bytes, slots, waiting);
      waiting = 0;
    }
  } while (hasNext && repeatedAt === -1);
  reader.at = after;
  return repeatedAt;
}

/** Adds the waiting keys to the table, whose slots hold positions; returns a repeated one or -1. */
function addBatch(bytes: Uint8Array, slots: Uint32Array, waiting: number): number {
  const mask = slots.length - 1;
  const tags = tagMask(bytes.length);
  for (let i = 0; i < waiting; i++) {
    const start = starts[i] as number;
    const hash = hashes[i] as number;
    let slot = hash & mask;
    for (let taken = slots[slot] as number; taken !== 0; taken = slots[slot] as number) {
      if (((taken ^ hash) & tags) === 0) {
        const other = (taken & ~tags) >>> 0;
        if (compareStrings(bytes, other, bytes, start) === 0) return start;
      }
      slot = (slot + 1) & mask;
    }
    slots[slot] = (hash & tags) | start;
  }
  return -1;
}
