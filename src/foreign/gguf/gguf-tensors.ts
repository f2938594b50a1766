/** The tensors of an open GGUF file, as the bytes of its storage. */

import { type ErrorContext, FormatError } from '../../errors/errors.js';
import type { Quantization } from '../../file/source/facts.js';
import { type BlockType, blockScheme } from '../../quantized/blocks/types.js';
import type { StorageBytes } from '../../tensor/storage/made.js';
import type { Storage } from '../../tensor/storage/storage.js';
import { tensorData } from '../tensor-data.js';
import type { ForeignTensor } from '../tensors/foreign-tensor.js';
import type { Change } from '../tensors/strided-fill.js';
import { cStrides } from '../tensors/tensor-layout.js';
import { changeOf } from '../value-changes.js';
import type { GgufHeader, GgufTensor } from './header/read-header.js';

/** Returns the error for a tensor whose bytes cannot be read; undefined for all others. */
export function problemOf(
  { name, type }: GgufTensor,
  { isBigEndian }: GgufHeader,
  { path }: ErrorContext,
): FormatError | undefined {
  if (!isBigEndian || type.block === null || type.block.words !== null) return undefined;
  const message = `${type.name} in big-endian files is not supported: convert the file to little-endian`;
  return new FormatError('SAFETENSORS_UNSUPPORTED_TENSOR', message, { path, tensor: name });
}

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

/** The tensor of a file in its storage. Bytes of big-endian files are swapped on use. */
export function tensorOf(
  tensor: GgufTensor,
  isBigEndian: boolean,
  storage: Storage,
  context: ErrorContext,
): ForeignTensor {
  const { name, type, shape, begin, byteLength } = tensor;
  const held: StorageBytes = { storage, begin, byteLength };
  const quantization = blockQuantization(tensor);
  return {
    ...{ name, dtype: type.dtype, shape, storage: held },
    ...{ storageByteLength: byteLength, byteOffset: 0 },
    data: isBigEndian ? swappedData(held, tensor, context) : held,
    ...(quantization === undefined ? {} : { quantization }),
  };
}

function swappedData(
  held: StorageBytes,
  { name, type, shape, byteLength }: GgufTensor,
  context: ErrorContext,
): StorageBytes {
  const change =
    type.block === null
      ? (changeOf(type.dtype, { isBigEndian: true }, { ...context, tensor: name }) as
          | Change
          | undefined)
      : wordSwap(type.block);
  const items = type.block === null ? shape : [byteLength / type.byteLength];
  const itemByteLength = type.byteLength;
  const strides = cStrides(items);
  return tensorData(held, { itemByteLength, shape: items, strides, offset: 0, byteLength }, change);
}

/** Swaps the bytes of all numbers in blocks. */
function wordSwap({ byteLength, words }: BlockType): Change | undefined {
  if (words === null || words.length === 0) return undefined;
  return (items) => {
    for (let block = 0; block < items.length; block += byteLength) {
      for (const word of words) {
        const at = block + word;
        const first = items[at] as number;
        items[at] = items[at + 1] as number;
        items[at + 1] = first;
      }
    }
  };
}
