/** The tensors of a GGUF file without its bytes, in the place of a safetensors header. */

import type { Quantization } from '../../../file/source/tensor-info.js';
import type { Dtype } from '../../../header/dtype.js';
import type { FileContents } from '../../../header/file-contents.js';
import { compareCodePoints } from '../../../header/json/code-point-order.js';
import { blockScheme } from '../../../quantized/blocks/types.js';
import type { GgufHeader, GgufTensor } from './read-header.js';
import type { GgufValues } from './values.js';

/** Returns how a tensor of blocks is stored; undefined for unquantized tensors. */
export function blockQuantization({
  name,
  type,
  byteLength,
}: GgufTensor): Quantization | undefined {
  if (type.block === null) return undefined;
  return Object.freeze({
    scheme: blockScheme(type.name),
    bits: type.block.bits,
    block: Object.freeze([1, type.block.length]),
    storedAs: Object.freeze({ weight: name }),
    byteLength,
  });
}

/** Offsets are positions in the file. */
export class GgufContents implements FileContents {
  readonly metadata: ReadonlyMap<string, string>;
  /** All metadata, decoded on use. */
  readonly values: GgufValues;
  readonly dataStart = 0;
  /** Length of the file. */
  readonly dataByteLength: number;
  readonly #tensors: readonly GgufTensor[];
  readonly #entries: ReadonlyMap<string, number>;

  constructor({ values, tensors }: GgufHeader, fileByteLength: number) {
    this.metadata = values.texts();
    this.values = values;
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
    return this.#tensor(entry).type.dtype;
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

  quantizationOf(entry: number): Quantization | undefined {
    return blockQuantization(this.#tensor(entry));
  }

  #tensor(entry: number): GgufTensor {
    return this.#tensors[entry] as GgufTensor;
  }
}
