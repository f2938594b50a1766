/** Finds names where they stand, in the bytes of a header or an index: an open-addressing table. */

import { UTF8_BYTES_PER_UNIT } from './encoded-text.js';
import { hashString, processHashKey } from './key-hash.js';
import { JsonReader } from './reader.js';
import { decodeStrings, StringDecoder, sortedStrings } from './string-lists.js';
import { compareStrings } from './strings.js';

const encoder = new TextEncoder();

/**
 * Memory for the name that is looked up, reused by every lookup; a longer name gets its own. A new
 * buffer per lookup cost 0.5 ms on Node 20: before it makes one, the engine collects garbage if young
 * buffers, such as those of large tensors, hold much memory.
 */
const lookup = new JsonReader(new Uint8Array(1024));

/** A reader at the start of a name's JSON text; valid until the next call. */
export function nameReader(name: string): JsonReader {
  const json = JSON.stringify(name);
  if (json.length * UTF8_BYTES_PER_UNIT > lookup.bytes.length) {
    return new JsonReader(encoder.encode(json));
  }
  encoder.encodeInto(json, lookup.bytes);
  lookup.at = 0;
  return lookup;
}

/** Power of two that leaves at least a quarter of the slots free for `count` keys. */
export function slotCount(count: number): number {
  let slots = 8;
  while (slots * 3 < count * 4) slots *= 2;
  return slots;
}

/**
 * A slot holds a number from 1 to `largest`, which stands for a key, and in the bits above it a part
 * of the key's hash: nearly no different keys are then compared. 0 is a free slot. Returns the mask
 * of the hash's bits.
 */
export function tagMask(largest: number): number {
  const tagBits = Math.clz32(largest);
  return tagBits === 0 ? 0 : (-1 << (32 - tagBits)) >>> 0;
}

/** Finds tensors by name: open addressing with linear probing; a slot holds an entry + 1. */
export class NameTable {
  readonly #bytes: Uint8Array;
  readonly #nameAt: Uint32Array;
  readonly #nameHash: Uint32Array;
  readonly #size: number;
  readonly #decoder: StringDecoder;
  readonly #slots: Uint32Array;
  readonly #tagMask: number;

  /** Positions and hashes of the names, by entry. The table reads the arrays but doesn't copy them. */
  constructor(bytes: Uint8Array, nameAt: Uint32Array, nameHash: Uint32Array, size: number) {
    this.#bytes = bytes;
    this.#nameAt = nameAt;
    this.#nameHash = nameHash;
    this.#size = size;
    this.#decoder = new StringDecoder(bytes);
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

  /** Entry of that name; -1 if absent. */
  find(name: string): number {
    // A name that is not Unicode text would become another one by encoding it.
    if (!name.isWellFormed()) return -1;
    const reader = nameReader(name);
    return this.findString(reader, reader.readString());
  }

  /** Entry of the name that `reader` read last, which began at `start`; -1 if absent. */
  findString(reader: JsonReader, start: number): number {
    const hash = hashString(reader, start, processHashKey(this.#bytes.length));
    return this.#entryAt(this.#slotOf(reader.bytes, start, hash));
  }

  /** Name of an entry. */
  name(entry: number): string {
    return this.#decoder.decode(this.#nameAt[entry] as number);
  }

  /** All names by their entries; a new array. */
  names(): string[] {
    return decodeStrings(this.#bytes, this.#nameAt, this.#size);
  }

  /** All names sorted by their UTF-8 bytes; a new array. */
  sortedNames(): string[] {
    return sortedStrings(this.#bytes, this.#nameAt, this.#size);
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
