/** Hash tables over the keys of a header, which stay where they are: in the header's bytes. */
import { CLOSE_BRACE, JsonReader } from './json.js';
import { compareStrings } from './json-string.js';
import { type HashKey, hashString, processHashKey } from './string-hash.js';

/** Power of two that leaves at least half of the slots free for `count` keys. */
function slotCount(count: number): number {
  let slots = 8;
  while (slots < count * 2) slots *= 2;
  return slots;
}

/** Finds tensors by name: open addressing with linear probing; a slot holds an entry + 1. */
export class NameTable {
  readonly #bytes: Uint8Array;
  readonly #nameAt: Uint32Array;
  readonly #slots: Uint32Array;
  readonly #key: HashKey;

  /** `nameAt` holds the position of each entry's name; both arrays stay the caller's. */
  constructor(bytes: Uint8Array, nameAt: Uint32Array, size: number) {
    this.#bytes = bytes;
    this.#nameAt = nameAt;
    this.#slots = new Uint32Array(slotCount(size));
    this.#key = processHashKey(bytes.length);
  }

  /** Adds an entry and returns -1, or returns the entry that has its name already. */
  add(entry: number): number {
    const slot = this.#slotOf(this.#bytes, this.#nameAt[entry] as number);
    const other = (this.#slots[slot] as number) - 1;
    if (other === -1) this.#slots[slot] = entry + 1;
    return other;
  }

  /** Puts an entry into the place of another one of the same name. */
  replace(entry: number): void {
    this.#slots[this.#slotOf(this.#bytes, this.#nameAt[entry] as number)] = entry + 1;
  }

  /** Entry whose name equals the JSON string at `start` of `bytes`; -1 when there is none. */
  find(bytes: Uint8Array, start: number): number {
    return (this.#slots[this.#slotOf(bytes, start)] as number) - 1;
  }

  #slotOf(bytes: Uint8Array, start: number): number {
    const slots = this.#slots;
    const mask = slots.length - 1;
    let slot = hashString(bytes, start, this.#key) & mask;
    for (;;) {
      const taken = slots[slot] as number;
      if (taken === 0) return slot;
      const nameAt = this.#nameAt[taken - 1] as number;
      if (compareStrings(bytes, start, this.#bytes, nameAt) === 0) return slot;
      slot = (slot + 1) & mask;
    }
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
  const hashKey = processHashKey(bytes.length);
  const reader = new JsonReader(bytes);
  reader.at = objectAt;
  reader.enter(CLOSE_BRACE);
  do {
    const keyAt = reader.readKey();
    let slot = hashString(bytes, keyAt, hashKey) & mask;
    for (let taken = slots[slot] as number; taken !== 0; taken = slots[slot] as number) {
      if (compareStrings(bytes, taken, bytes, keyAt) === 0) return keyAt;
      slot = (slot + 1) & mask;
    }
    slots[slot] = keyAt;
    reader.skipValue(0);
  } while (reader.hasNext(CLOSE_BRACE));
  return -1;
}
