/** Names that were decoded during reading. */

import type { JsonReader } from './reader.js';
import { decodeString } from './strings.js';

/** Finds tensors by name, as `NameTable` does, which decodes none and is slower in its first calls. */
export class DecodedNames {
  readonly #entries: ReadonlyMap<string, number>;
  #names: readonly string[] | null = null;

  /** The names, different ones of ASCII, and their entries, which count from 0. */
  constructor(entries: ReadonlyMap<string, number>) {
    this.#entries = entries;
  }

  /** Entry of that name; -1 if absent. */
  find(name: string): number {
    return this.#entries.get(name) ?? -1;
  }

  /** Entry of the name that `reader` read last, which began at `start`; -1 if absent. */
  findString(reader: JsonReader, start: number): number {
    return this.find(decodeString(reader.bytes, start));
  }

  /** Name of an entry. */
  name(entry: number): string {
    this.#names ??= this.names();
    return this.#names[entry] as string;
  }

  /** All names by their entries; a new array. */
  names(): string[] {
    return [...this.#entries.keys()];
  }

  /** All names sorted by their bytes; a new array. */
  sortedNames(): string[] {
    return this.names().sort();
  }
}
