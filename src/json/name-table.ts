/** Hash tables over the keys of a header, which stay where they are: in the header's bytes. */

import { hashString, processHashKey } from './key-hash.js';
import { CLOSE_BRACE, JsonReader } from './reader.js';
import { skipValue } from './skip.js';
import { compareStrings } from './strings.js';

const encoder = new TextEncoder();

/**
 * Room for the names that are looked up, one at a time; longer ones get memory of their own. Engines
 * collect garbage before they make an ordinary ArrayBuffer when young buffers hold much memory, as
 * those of large tensors do on Node 20: a new one for every lookup cost 0.5 ms.
 */
const lookup = new JsonReader(new Uint8Array(1024));

/** UTF-8 takes at most three bytes for a UTF-16 unit. */
const UTF8_BYTES_PER_UNIT = 3;

/** A reader at the start of the text, which is JSON; good until the next call. */
function readerOf(json: string): JsonReader {
  if (json.length * UTF8_BYTES_PER_UNIT > lookup.bytes.length) {
    return new JsonReader(encoder.encode(json));
  }
  encoder.encodeInto(json, lookup.bytes);
  lookup.at = 0;
  return lookup;
}

/** Power of two that leaves at least a quarter of the slots free for `count` keys. */
function slotCount(count: number): number {
  let slots = 8;
  while (slots * 3 < count * 4) slots *= 2;
  return slots;
}

/**
 * Slots hold a number from 1 to `largest` that stands for a key, and in the bits above it a part
 * of the key's hash, which spares nearly all comparisons of different keys. 0 is a free slot.
 */
function tagMask(largest: number): number {
  const tagBits = Math.clz32(largest);
  return tagBits === 0 ? 0 : (-1 << (32 - tagBits)) >>> 0;
}

/** Finds tensors by name: open addressing with linear probing; a slot holds an entry + 1. */
export class NameTable {
  readonly #bytes: Uint8Array;
  readonly #nameAt: Uint32Array;
  readonly #nameHash: Uint32Array;
  readonly #slots: Uint32Array;
  readonly #tagMask: number;

  /** Positions and hashes of the entries' names, by entry; the arrays stay the caller's. */
  constructor(bytes: Uint8Array, nameAt: Uint32Array, nameHash: Uint32Array, size: number) {
    this.#bytes = bytes;
    this.#nameAt = nameAt;
    this.#nameHash = nameHash;
    this.#slots = new Uint32Array(slotCount(size));
    this.#tagMask = tagMask(size);
  }

  /**
   * Adds an entry and returns -1. When another one has its name, the one that stands later in the
   * header stays in the table, and the other is returned.
   */
  add(entry: number): number {
    const start = this.#nameAt[entry] as number;
    const hash = this.#nameHash[entry] as number;
    const slots = this.#slots;
    let slot = hash & (slots.length - 1);
    if (slots[slot] !== 0) {
      slot = this.#slotOf(this.#bytes, start, hash);
      const other = this.#entryAt(slot);
      if (other !== -1) return this.#replace(slot, other, entry);
    }
    slots[slot] = (hash & this.#tagMask) | (entry + 1);
    return -1;
  }

  #replace(slot: number, other: number, entry: number): number {
    if ((this.#nameAt[entry] as number) < (this.#nameAt[other] as number)) return entry;
    this.#slots[slot] = ((this.#nameHash[entry] as number) & this.#tagMask) | (entry + 1);
    return other;
  }

  /** Entry of that name; -1 when there is none. */
  find(name: string): number {
    // A name that is not Unicode text would become another one by encoding it.
    if (!name.isWellFormed()) return -1;
    const reader = readerOf(JSON.stringify(name));
    return this.findString(reader, reader.readString());
  }

  /** Entry of the name that `reader` has read last, which began at `start`; -1 when there is none. */
  findString(reader: JsonReader, start: number): number {
    const hash = hashString(reader, start, processHashKey(this.#bytes.length));
    return this.#entryAt(this.#slotOf(reader.bytes, start, hash));
  }

  #entryAt(slot: number): number {
    return ((this.#slots[slot] as number) & ~this.#tagMask) - 1;
  }

  #slotOf(bytes: Uint8Array, start: number, hash: number): number {
    const slots = this.#slots;
    const mask = slots.length - 1;
    const tags = this.#tagMask;
    let slot = hash & mask;
    for (let taken = slots[slot] as number; taken !== 0; taken = slots[slot] as number) {
      if (((taken ^ hash) & tags) === 0) {
        const nameAt = this.#nameAt[(taken & ~tags) - 1] as number;
        if (compareStrings(bytes, start, this.#bytes, nameAt) === 0) return slot;
      }
      slot = (slot + 1) & mask;
    }
    return slot;
  }
}

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
