/** The types of tensors in GGUF files, by their numbers in ggml. */

import { type ErrorContext, FormatError } from '../../../errors/errors.js';
import { DTYPES, type Dtype } from '../../../header/dtype.js';
import { BLOCK_TYPES, type BlockType } from '../../../quantized/blocks/types.js';

/** A type: numbers of a dtype, or blocks. */
export interface TensorType {
  /** Name in ggml. */
  readonly name: string;
  /** The dtype under which the bytes are listed: U8 for blocks. */
  readonly dtype: Dtype;
  /** The blocks; null for unquantized types. */
  readonly block: BlockType | null;
  /** Values of a block, or 1. */
  readonly length: number;
  /** Bytes of these values. */
  readonly byteLength: number;
}

const PLAIN: readonly (readonly [id: number, dtype: Dtype])[] = [
  [0, 'F32'],
  [1, 'F16'],
  [24, 'I8'],
  [25, 'I16'],
  [26, 'I32'],
  [27, 'I64'],
  [28, 'F64'],
  [30, 'BF16'],
];

const BLOCKS: readonly (readonly [id: number, name: string])[] = [
  [2, 'Q4_0'],
  [3, 'Q4_1'],
  [6, 'Q5_0'],
  [7, 'Q5_1'],
  [8, 'Q8_0'],
  [9, 'Q8_1'],
  [10, 'Q2_K'],
  [11, 'Q3_K'],
  [12, 'Q4_K'],
  [13, 'Q5_K'],
  [14, 'Q6_K'],
  [15, 'Q8_K'],
  [16, 'IQ2_XXS'],
  [17, 'IQ2_XS'],
  [18, 'IQ3_XXS'],
  [19, 'IQ1_S'],
  [20, 'IQ4_NL'],
  [21, 'IQ3_S'],
  [22, 'IQ2_S'],
  [23, 'IQ4_XS'],
  [29, 'IQ1_M'],
  [34, 'TQ1_0'],
  [35, 'TQ2_0'],
  [39, 'MXFP4'],
  [40, 'NVFP4'],
  [41, 'Q1_0'],
];

/** Types whose layout is not known here: ggml has removed most of them. */
const UNREAD: ReadonlyMap<number, string> = new Map([
  [4, 'Q4_2, which ggml has removed'],
  [5, 'Q4_3, which ggml has removed'],
  [31, 'Q4_0_4_4, which ggml has removed: quantize the model to Q4_0'],
  [32, 'Q4_0_4_8, which ggml has removed: quantize the model to Q4_0'],
  [33, 'Q4_0_8_8, which ggml has removed: quantize the model to Q4_0'],
  [36, 'IQ4_NL_4_4, which ggml has removed: quantize the model to IQ4_NL'],
  [37, 'IQ4_NL_4_8, which ggml has removed: quantize the model to IQ4_NL'],
  [38, 'IQ4_NL_8_8, which ggml has removed: quantize the model to IQ4_NL'],
  [42, 'Q2_0'],
]);

const TYPES: ReadonlyMap<number, TensorType> = new Map([
  ...PLAIN.map(([id, dtype]): [number, TensorType] => {
    const byteLength = DTYPES[dtype].bits / 8;
    return [id, { name: dtype, dtype, block: null, length: 1, byteLength }];
  }),
  ...BLOCKS.map(([id, name]): [number, TensorType] => {
    const block = BLOCK_TYPES.get(name) as BlockType;
    const { length, byteLength } = block;
    return [id, { name, dtype: 'U8', block, length, byteLength }];
  }),
]);

/**
 * Returns a type by its number.
 *
 * @throws FormatError `SAFETENSORS_UNSUPPORTED_TENSOR` for a type that is not read, `SAFETENSORS_INVALID_GGUF` for a
 *   number without a type
 */
export function tensorTypeOf(id: number, context: ErrorContext): TensorType {
  const type = TYPES.get(id);
  if (type !== undefined) return type;
  const unread = UNREAD.get(id);
  if (unread !== undefined) {
    const message = `unsupported type ${id}: ${unread}`;
    throw new FormatError('SAFETENSORS_UNSUPPORTED_TENSOR', message, context);
  }
  throw new FormatError('SAFETENSORS_INVALID_GGUF', `unknown tensor type ${id}`, context);
}
