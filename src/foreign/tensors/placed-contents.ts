/** The tensors of a file whose bytes are ranges of it, in the place of a safetensors header. */

import type { Dtype } from '../../header/dtype.js';
import type { FileContents } from '../../header/file-contents.js';
import { compareCodePoints } from '../../header/json/code-point-order.js';

/** A tensor, and the place of its bytes in the file. */
export interface PlacedTensor {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly begin: number;
  readonly byteLength: number;
}

/** Offsets are positions in the file. */
export class PlacedContents implements FileContents {
  readonly metadata: ReadonlyMap<string, string> | null;
  readonly dataStart = 0;
  /** Length of the file. */
  readonly dataByteLength: number;
  readonly #tensors: readonly PlacedTensor[];
  readonly #entries: ReadonlyMap<string, number>;

  /** Names must be unique; tensors are in the order of their bytes. */
  constructor(
    tensors: readonly PlacedTensor[],
    fileByteLength: number,
    metadata: ReadonlyMap<string, string> | null,
  ) {
    this.metadata = metadata;
    this.dataByteLength = fileByteLength;
    this.#tensors = tensors;
    this.#entries = new Map(tensors.map(({ name }, entry) => [name, entry]));
  }

  get size(): number {
    return this.#tensors.length;
  }

  get json(): { readonly length: number } {
    return { length: this.#tensors.reduce((sum, { name }) => sum + name.length, 0) };
  }

  find(name: string): number {
    return this.#entries.get(name) ?? -1;
  }

  name(entry: number): string {
    return this.#tensor(entry).name;
  }

  names(): string[] {
    return [...this.#entries.keys()];
  }

  sortedNames(): string[] {
    return this.names().sort(compareCodePoints);
  }

  dtype(entry: number): Dtype {
    return this.#tensor(entry).dtype;
  }

  shape(entry: number): readonly number[] {
    return Object.freeze(this.#tensor(entry).shape);
  }

  begin(entry: number): number {
    return this.#tensor(entry).begin;
  }

  end(entry: number): number {
    const { begin, byteLength } = this.#tensor(entry);
    return begin + byteLength;
  }

  #tensor(entry: number): PlacedTensor {
    return this.#tensors[entry] as PlacedTensor;
  }
}
