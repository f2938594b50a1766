/**
 * Counts the bit patterns of a tensor. A dtype of 16 bits has 65,536 of them, so statistics and histogram of any number
 * of values follow from the counts.
 */

import { DTYPES, type Dtype } from '../../header/dtype.js';
import { elementCountOf } from '../../header/tensor-spec.js';
import { convertToFloat32 } from '../../tensor/float32/to-float32.js';
import type { Tensor } from '../../tensor/tensor.js';
import type { TransferOptions } from '../../work/transfer.js';
import { isByteSized, isInteger } from './numbers.js';
import { alikeParts, type SliceableTensor } from './tensor-values.js';

/** Counts below the limit of Uint32Array: as many elements are counted before they are added up. */
const MOST_COUNTED = 2 ** 31;

/** The values that a tensor has, each with the number of its elements; NaN may be several times among them. */
export interface PatternCounts {
  readonly values: ArrayLike<number>;
  readonly counts: Float64Array;
}

/** Fewer elements are read one by one in less time than the tables of counts take. */
const LEAST_COUNTED = 2 ** 18;

/** Whether elements have 8 or 16 bits, and are so many that counting pays. */
export function hasPatterns({ dtype, shape }: Pick<SliceableTensor, 'dtype' | 'shape'>): boolean {
  const isShort = isByteSized(dtype) && DTYPES[dtype].bits <= 16;
  return isShort && elementCountOf(shape) >= LEAST_COUNTED;
}

/**
 * Counts the patterns of all elements. Lets other events run in between.
 *
 * @throws As `slice` of the tensor; `signal.reason`
 */
export async function countPatterns(
  tensor: SliceableTensor,
  options: TransferOptions,
): Promise<PatternCounts> {
  const { dtype } = tensor;
  const patternCount = 2 ** DTYPES[dtype].bits;
  const totals = new Float64Array(patternCount);
  // Equal values often follow each other: two tables need not wait for the last count.
  const tables = [new Uint32Array(patternCount), new Uint32Array(patternCount)] as const;
  let pending = 0;
  const addUp = (): void => {
    for (const table of tables) {
      for (let i = 0; i < patternCount; i++)
        totals[i] = (totals[i] as number) + (table[i] as number);
      table.fill(0);
    }
    pending = 0;
  };
  for await (const [part] of alikeParts([tensor], options)) {
    const bits = bitsOf(part as Tensor);
    if (pending + bits.length > MOST_COUNTED) addUp();
    count(bits, ...tables);
    pending += bits.length;
  }
  addUp();
  return present(valuesOfPatterns(dtype), totals);
}

/** Elements as unsigned integers. */
function bitsOf({ dtype, bytes, data }: Tensor): Uint8Array | Uint16Array {
  if (DTYPES[dtype].bits === 8) return bytes;
  const { buffer, byteOffset, length } = data as Uint16Array;
  return new Uint16Array(buffer, byteOffset, length);
}

function count(bits: Uint8Array | Uint16Array, even: Uint32Array, odd: Uint32Array): void {
  const { length } = bits;
  const paired = length - (length % 2);
  for (let i = 0; i < paired; i += 2) {
    const [a, b] = [bits[i] as number, bits[i + 1] as number];
    even[a] = (even[a] as number) + 1;
    odd[b] = (odd[b] as number) + 1;
  }
  if (paired < length) {
    const last = bits[paired] as number;
    even[last] = (even[last] as number) + 1;
  }
}

/** The value of every pattern. */
function valuesOfPatterns(dtype: Dtype): ArrayLike<number> {
  const is16 = DTYPES[dtype].bits === 16;
  const patterns = is16
    ? Uint16Array.from({ length: 2 ** 16 }, (_, i) => i)
    : Uint8Array.from({ length: 2 ** 8 }, (_, i) => i);
  const { buffer } = patterns;
  if (dtype === 'I8') return new Int8Array(buffer);
  if (dtype === 'I16') return new Int16Array(buffer);
  if (isInteger(dtype) || dtype === 'BOOL') return patterns;
  const values = new Float32Array(patterns.length);
  convertToFloat32(dtype, new Uint8Array(buffer), values);
  return values;
}

/** Those that a tensor has. */
function present(values: ArrayLike<number>, totals: Float64Array): PatternCounts {
  const found: number[] = [];
  for (let pattern = 0; pattern < totals.length; pattern++) {
    if (totals[pattern] !== 0) found.push(pattern);
  }
  return {
    values: Float32Array.from(found, (pattern) => values[pattern] as number),
    counts: Float64Array.from(found, (pattern) => totals[pattern] as number),
  };
}
