/** The facts of the tensors of a file of another format, in the place of a safetensors header. */

import type { Quantization } from '../../file/source/tensor-info.js';
import type { Dtype } from '../../header/dtype.js';
import type { FileContents } from '../../header/file-contents.js';
import { compareCodePoints } from '../../header/json/code-point-order.js';
import { type ForeignTensor, heldRange } from './foreign-tensor.js';

/** Tensors in the order of their bytes in the file; offsets are positions in the file. */
export class ForeignContents implements FileContents {
  readonly metadata: ReadonlyMap<string, string> | null;
  readonly #tensors: readonly ForeignTensor[];
  readonly #entries: ReadonlyMap<string, number>;

  /** Names must be unique. */
  constructor(
    tensors: readonly ForeignTensor[],
    metadata: ReadonlyMap<string, string> | null = null,
  ) {
    this.metadata = metadata;
    const placed = tensors.map((tensor) => ({ tensor, at: heldRange(tensor).position }));
    placed.sort((a, b) => a.at - b.at);
    this.#tensors = placed.map(({ tensor }) => tensor);
    this.#entries = new Map(this.#tensors.map(({ name }, entry) => [name, entry]));
  }

  get size(): number {
    return this.#tensors.length;
  }

  get json(): { readonly length: number } {
    return { length: this.#tensors.reduce((sum, { name }) => sum + name.length, 0) };
  }

  /** All tensors. */
  get tensors(): readonly ForeignTensor[] {
    return this.#tensors;
  }

  find(name: string): number {
    return this.#entries.get(name) ?? -1;
  }

  /** Returns the tensor of an entry. */
  tensor(entry: number): ForeignTensor {
    return this.#tensors[entry] as ForeignTensor;
  }

  name(entry: number): string {
    return this.tensor(entry).name;
  }

  names(): string[] {
    return [...this.#entries.keys()];
  }

  sortedNames(): string[] {
    return this.names().sort(compareCodePoints);
  }

  dtype(entry: number): Dtype {
    return this.tensor(entry).dtype;
  }

  shape(entry: number): readonly number[] {
    return Object.freeze(this.tensor(entry).shape);
  }

  begin(entry: number): number {
    return heldRange(this.tensor(entry)).position;
  }

  end(entry: number): number {
    const { position, byteLength } = heldRange(this.tensor(entry));
    return position + byteLength;
  }

  /** How a tensor of blocks is stored. */
  quantizationOf(entry: number): Quantization | undefined {
    return this.tensor(entry).quantization;
  }
}
