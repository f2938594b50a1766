/** Values of a tensor as numbers of JavaScript. */

import { DTYPES, type Dtype } from '../../header/dtype.js';
import type { Tensor } from '../../tensor/tensor.js';

const INTEGER_DTYPES: readonly Dtype[] = ['U8', 'I8', 'I16', 'U16', 'I32', 'U32', 'I64', 'U64'];

/** Whether its elements are whole numbers. */
export function isInteger(dtype: Dtype): boolean {
  return INTEGER_DTYPES.includes(dtype);
}

/**
 * The values as numbers, in the order of their bytes: a view where JavaScript has the dtype, else new memory. Of C64
 * real and imaginary parts in turn; integers of 64 bits are rounded.
 *
 * @example
 * ```ts
 * const embed = safeOpen('model.safetensors').getTensor('embed.weight'); // BF16
 * console.log(valueNumbers(embed.slice(0))); // → Float32Array(4) [ 0, 0.25, 0.5, 0.75 ]
 * ```
 */
export function valueNumbers(tensor: Tensor): ArrayLike<number> {
  const { dtype } = tensor;
  if (dtype === 'I64' || dtype === 'U64') return rounded(tensor.data as unknown as BigInt64Array);
  return isConverted(dtype) ? tensor.toFloat32() : (tensor.data as ArrayLike<number>);
}

/** A tenth of the time of `Float64Array.from`. */
function rounded(integers: BigInt64Array): Float64Array {
  const numbers = new Float64Array(integers.length);
  for (let i = 0; i < integers.length; i++) numbers[i] = Number(integers[i]);
  return numbers;
}

/** Whether the dtype has no typed array of numbers. */
export function isConverted(dtype: Dtype): boolean {
  return !(isInteger(dtype) || ['BOOL', 'F32', 'F64', 'C64'].includes(dtype));
}

/** As `valueNumbers`; what would be new memory is in `memory` instead, if that is long enough. */
export function valueNumbersIn(tensor: Tensor, memory: Float32Array): ArrayLike<number> {
  const { dtype, elementCount } = tensor;
  if (!isConverted(dtype) || elementCount > memory.length) return valueNumbers(tensor);
  return tensor.toFloat32({ into: memory.subarray(0, elementCount) });
}

/** Whether a slice may begin at any element: packed elements may begin inside a byte. */
export function isByteSized(dtype: Dtype): boolean {
  return DTYPES[dtype].bits % 8 === 0;
}
