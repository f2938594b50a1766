/** The tensors of a GGUF file without its bytes, in the place of a safetensors header. */

import type { Quantization } from '../../../file/source/tensor-info.js';
import { blockScheme } from '../../../quantized/blocks/types.js';
import { PlacedContents } from '../../tensors/placed-contents.js';
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

/** The metadata and tensors of a file. */
export class GgufContents extends PlacedContents {
  override readonly metadata: ReadonlyMap<string, string>;
  /** All metadata, decoded on use. */
  readonly values: GgufValues;
  readonly #tensors: readonly GgufTensor[];

  constructor({ values, tensors }: GgufHeader, fileByteLength: number) {
    const placed = tensors.map(({ name, type: { dtype }, shape, begin, byteLength }) => {
      return { name, dtype, shape, begin, byteLength };
    });
    const metadata = values.texts();
    super(placed, fileByteLength, metadata);
    this.metadata = metadata;
    this.values = values;
    this.#tensors = tensors;
  }

  quantizationOf(entry: number): Quantization | undefined {
    return blockQuantization(this.#tensors[entry] as GgufTensor);
  }
}
