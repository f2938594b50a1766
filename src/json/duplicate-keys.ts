/** Finds keys that an object has twice. */

import { hashString, processHashKey } from './key-hash.js';
import { slotCount, tagMask } from './name-table.js';
import { CLOSE_BRACE, type JsonReader } from './reader.js';
import { skipValue } from './skip.js';
import { compareStrings } from './strings.js';

/** Keys that are looked up together; enough for the processor to overlap its waits for memory. */
const BATCH_SIZE = 64;

/** Finds repeated keys of one object with millions of them: slots hold the keys' positions. */
class KeySet {
  readonly #bytes: Uint8Array;
  readonly #slots: Uint32Array;
  readonly #tagMask: number;
  readonly #starts: Uint32Array = new Uint32Array(BATCH_SIZE);
  readonly #hashes: Uint32Array = new Uint32Array(BATCH_SIZE);
  #waiting = 0;

  constructor(bytes: Uint8Array, count: number) {
    this.#bytes = bytes;
    this.#slots = new Uint32Array(slotCount(count));
    this.#tagMask = tagMask(bytes.length);
  }

  /** Adds the key at `start`; now or later this returns the position of a repeated key, else -1. */
  add(start: number, hash: number): number {
    this.#starts[this.#waiting] = start;
    this.#hashes[this.#waiting] = hash;
    this.#waiting++;
    return this.#waiting === BATCH_SIZE ? this.flush() : -1;
  }

  /** Looks up all keys that wait; returns the position of a repeated one, else -1. */
  flush(): number {
    const slots = this.#slots;
    const mask = slots.length - 1;
    const tags = this.#tagMask;
    for (let i = 0; i < this.#waiting; i++) {
      const start = this.#starts[i] as number;
      const hash = this.#hashes[i] as number;
      let slot = hash & mask;
      for (let taken = slots[slot] as number; taken !== 0; taken = slots[slot] as number) {
        if (((taken ^ hash) & tags) === 0) {
          const other = (taken & ~tags) >>> 0;
          if (compareStrings(this.#bytes, other, this.#bytes, start) === 0) return start;
        }
        slot = (slot + 1) & mask;
      }
      slots[slot] = ((hash & tags) | start) >>> 0;
    }
    this.#waiting = 0;
    return -1;
  }
}

/** Objects of at most this many keys are compared key by key, which needs no table. */
const FEW_KEYS = 16;

/**
 * Position of a key that repeats an earlier one of the object at `objectAt`, which is valid JSON
 * and has `count` keys; -1 when all differ. Objects inside it are not looked into, and the reader
 * comes back to where it stood.
 */
export function findDuplicateKey(reader: JsonReader, objectAt: number, count: number): number {
  if (count < 2) return -1;
  const after = reader.at;
  reader.at = objectAt;
  const duplicateAt = count <= FEW_KEYS ? findAmongFew(reader) : findAmongMany(reader, count);
  reader.at = after;
  return duplicateAt;
}

/** The keys of one object that a reader of it comes upon, compared without reading it again. */
export class FewKeys {
  readonly #starts: Uint32Array = new Uint32Array(FEW_KEYS);
  #count = 0;

  /** Forgets the keys. */
  clear(): void {
    this.#count = 0;
  }

  /** Remembers the key that begins at `start`. */
  add(start: number): void {
    // Writing behind the end of a typed array does nothing.
    this.#starts[this.#count++] = start;
  }

  /** Whether there were more keys than are remembered. */
  get areTooMany(): boolean {
    return this.#count > FEW_KEYS;
  }

  /** Start of the first key that equals an earlier one; -1 when all differ. */
  findRepeated(bytes: Uint8Array): number {
    for (let i = 1; i < this.#count; i++) {
      const start = this.#starts[i] as number;
      for (let j = 0; j < i; j++) {
        if (compareStrings(bytes, this.#starts[j] as number, bytes, start) === 0) return start;
      }
    }
    return -1;
  }
}

function findAmongFew(reader: JsonReader): number {
  const { bytes } = reader;
  const starts: number[] = [];
  reader.enter(CLOSE_BRACE);
  do {
    const start = reader.readKey();
    for (const other of starts) {
      if (compareStrings(bytes, other, bytes, start) === 0) return start;
    }
    starts.push(start);
    skipValue(reader, 0);
  } while (reader.hasNext(CLOSE_BRACE));
  return -1;
}

function findAmongMany(reader: JsonReader, count: number): number {
  const keys = new KeySet(reader.bytes, count);
  const hashKey = processHashKey(reader.bytes.length);
  reader.enter(CLOSE_BRACE);
  do {
    const start = reader.readKey();
    const repeated = keys.add(start, hashString(reader, start, hashKey));
    if (repeated !== -1) return repeated;
    skipValue(reader, 0);
  } while (reader.hasNext(CLOSE_BRACE));
  return keys.flush();
}

/** Whether the object at `objectAt`, which is valid JSON, has a key; `key` ends with a quote. */
export function hasKey(reader: JsonReader, objectAt: number, key: Uint8Array): boolean {
  reader.at = objectAt;
  if (!reader.enter(CLOSE_BRACE)) return false;
  do {
    if (compareStrings(reader.bytes, reader.readKey(), key, 0) === 0) return true;
    skipValue(reader, 0);
  } while (reader.hasNext(CLOSE_BRACE));
  return false;
}
