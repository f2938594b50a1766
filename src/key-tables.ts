/** Hash tables over the keys of a header, which stay where they are: in the header's bytes. */
import { CLOSE_BRACE, JsonReader } from './json.js';
import { skipValue } from './json-skip.js';
import { compareStrings } from './json-string.js';
import { hashString, processHashKey } from './string-hash.js';

const encoder = new TextEncoder();

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
    const slot = this.#slotOf(this.#bytes, start, hash);
    const other = this.#entryAt(slot);
    if (other !== -1 && start < (this.#nameAt[other] as number)) return entry;
    this.#slots[slot] = ((hash & this.#tagMask) | (entry + 1)) >>> 0;
    return other;
  }

  /** Entry of that name; -1 when there is none. */
  find(name: string): number {
    // A name that is not Unicode text would become another one by encoding it.
    if (/\p{Surrogate}/u.test(name)) return -1;
    const reader = new JsonReader(encoder.encode(JSON.stringify(name)));
    const start = reader.readString();
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

/**
 * Position of the first key that repeats an earlier one of the object at `objectAt`, which is
 * valid JSON and has `count` keys; -1 when all differ. Objects inside it are not looked into.
 */
export function findDuplicateKey(bytes: Uint8Array, objectAt: number, count: number): number {
  if (count < 2) return -1;
  const slots = new Uint32Array(slotCount(count));
  const mask = slots.length - 1;
  const tags = tagMask(bytes.length);
  const hashKey = processHashKey(bytes.length);
  const reader = new JsonReader(bytes);
  reader.at = objectAt;
  reader.enter(CLOSE_BRACE);
  do {
    const keyAt = reader.readKey();
    const hash = hashString(reader, keyAt, hashKey);
    let slot = hash & mask;
    for (let taken = slots[slot] as number; taken !== 0; taken = slots[slot] as number) {
      const isCandidate = ((taken ^ hash) & tags) === 0;
      if (isCandidate && compareStrings(bytes, (taken & ~tags) >>> 0, bytes, keyAt) === 0) {
        return keyAt;
      }
      slot = (slot + 1) & mask;
    }
    slots[slot] = ((hash & tags) | keyAt) >>> 0;
    skipValue(reader, 0);
  } while (reader.hasNext(CLOSE_BRACE));
  return -1;
}
