/** Names of a text that lists them in order: finding one needs no table. */

import { nameReader } from './name-table.js';
import { decodeStrings } from './string-lists.js';
import { compareJsonStrings, decodeString, type Text } from './strings.js';

/** Finds names in place, by bisection. */
export class SortedNames {
  readonly #text: Text;
  readonly #nameAt: Uint32Array;

  /** Positions of the names after their opening quotes, by entry; every name is above the one before. */
  constructor(text: Text, nameAt: Uint32Array) {
    this.#text = text;
    this.#nameAt = nameAt;
  }

  /** Entry of that name; -1 if absent. */
  find(name: string): number {
    // A name that is not Unicode text would become another one by encoding it.
    if (!name.isWellFormed()) return -1;
    const reader = nameReader(name);
    const start = reader.readString();
    let begin = 0;
    let end = this.#nameAt.length;
    while (begin < end) {
      const middle = (begin + end) >>> 1;
      const order = compareJsonStrings(reader, start, this.#text, this.#nameAt[middle] as number);
      if (order < 0) end = middle;
      else if (order > 0) begin = middle + 1;
      else return middle;
    }
    return -1;
  }

  /** Name of an entry. */
  name(entry: number): string {
    return decodeString(this.#text.bytes, this.#nameAt[entry] as number);
  }

  /** All names by their entries; a new array. */
  names(): string[] {
    return decodeStrings(this.#text.bytes, this.#nameAt, this.#nameAt.length);
  }

  /** The names of `names()`: they are already sorted by their UTF-8 bytes. */
  sortedNames(): string[] {
    return this.names();
  }
}
