/** Finds the rows that a list of indices takes from a tensor, by the rules of `numpy.take` along dimension 0. */

import { argumentTypeError } from '../errors/arguments.js';
import { isTypedArray, tagOf } from '../errors/brand-checks.js';
import { type ErrorContext, SafetensorsError } from '../errors/errors.js';
import { allocate } from '../errors/out-of-memory.js';

/** Positions along dimension 0, in any order, repeated or not; negative ones count from the end. */
export type RowIndices =
  | readonly (number | bigint)[]
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

/** The rows to take, with all indices checked. */
export interface RowPlan {
  /** Positions along dimension 0, from 0 on; a copy, unaffected by later changes of the caller's list. */
  readonly rows: Float64Array;
  /** Length of one row in bytes. */
  readonly rowByteLength: number;
  /** Length of all rows in bytes. */
  readonly byteLength: number;
  /** Dimensions of the result, outermost first. */
  readonly shape: readonly number[];
}

/** The tensor to take rows from. */
interface Table {
  readonly shape: readonly number[];
  readonly byteLength: number;
}

const INTEGER_ARRAY = /^(?:Big)?(?:Int|Uint)\d+(?:Clamped)?Array$/;

/**
 * Checks every index before anything is read.
 *
 * @throws SafetensorsError `SAFETENSORS_TOO_MANY_INDICES` for a scalar, `SAFETENSORS_MISALIGNED_SLICE` when
 *   rows of a packed dtype do not end on a byte, `SAFETENSORS_SLICE_OUT_OF_RANGE`
 * @throws TypeError `ERR_INVALID_ARG_TYPE` unless the indices are a list of integers
 */
export function planRows(table: Table, indices: RowIndices, context: ErrorContext): RowPlan {
  const [rowCount, ...rowShape] = table.shape;
  if (rowCount === undefined) {
    const message = 'expected a tensor with dimensions, found a scalar, which has no rows';
    throw new SafetensorsError('SAFETENSORS_TOO_MANY_INDICES', message, context);
  }
  const rowByteLength = table.byteLength === 0 ? 0 : table.byteLength / rowCount;
  if (!Number.isInteger(rowByteLength)) {
    const message = `expected rows of whole bytes, found rows of ${rowByteLength} bytes`;
    throw new SafetensorsError('SAFETENSORS_MISALIGNED_SLICE', message, context);
  }
  const isArray = isTypedArray(indices) && INTEGER_ARRAY.test(tagOf(indices));
  if (!isArray && !Array.isArray(indices)) {
    throw argumentTypeError('indices', 'an array of integers, or a typed one', indices);
  }
  const rows = allocate(Float64Array, indices.length, context);
  for (let i = 0; i < rows.length; i++) {
    const index: unknown = indices[i];
    if (typeof index !== 'bigint' && !Number.isInteger(index)) {
      throw argumentTypeError(`indices[${i}]`, 'an integer', index);
    }
    const position = Number(index);
    if (position < -rowCount || position >= rowCount) {
      const message = `indices[${i}] is ${index}, out of range for dimension 0 of size ${rowCount}`;
      throw new SafetensorsError('SAFETENSORS_SLICE_OUT_OF_RANGE', message, context);
    }
    rows[i] = position < 0 ? position + rowCount : position;
  }
  const byteLength = rows.length * rowByteLength;
  return { rows, rowByteLength, byteLength, shape: [rows.length, ...rowShape] };
}
