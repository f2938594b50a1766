/** Options of reading rows of a logical tensor, and their checks. */

import {
  argumentRangeError,
  argumentTypeError,
  type OptionNames,
  requireInteger,
} from '../errors/arguments.js';
import { isTypedArray, tagOf } from '../errors/brand-checks.js';
import type { TransferProgress } from '../work/transfer.js';

/** Dtypes of dequantized values. */
export type DequantizedDtype = 'F32' | 'BF16' | 'F16';

/** The typed array of dequantized values: numbers of F32, bit patterns of the others. */
export type DequantizedData = Float32Array | Uint16Array;

/** Options of `LogicalTensor.toFloat32`. */
export interface DequantizeRowsOptions {
  /**
   * The rows [first, last) to read; all by default. A row runs along the last dimension: a tensor of [E, R, K] has
   * E × R rows of K values, one of a single dimension has one.
   */
  readonly rows?: readonly [first: number, last: number] | undefined;
  /** The array to write to, which is then the result: as many items as there are values. A new one by default. */
  readonly into?: Float32Array | undefined;
}

/** Options of `LogicalTensor.toFloat32Async`. */
export interface DequantizeRowsAsyncOptions extends DequantizeRowsOptions {
  /** Ends the work early. */
  readonly signal?: AbortSignal | undefined;
  /** Called at most ten times a second while values are made, and once when all are: in bytes of values. */
  readonly onProgress?: ((progress: TransferProgress) => void) | undefined;
}

/** Options of `LogicalTensor.slice` and `LogicalTensor.take`. */
export type DequantizePartOptions = Pick<DequantizeRowsAsyncOptions, 'signal'>;

/** Options of `LogicalTensor.cast`. */
export interface DequantizeCastOptions extends Omit<DequantizeRowsAsyncOptions, 'into'> {
  /** The array to write bit patterns to; a new one by default. */
  readonly into?: Uint16Array | undefined;
}

/** Options of `LogicalTensor.rowBlocks`. */
export interface RowBlocksOptions extends Pick<DequantizeRowsAsyncOptions, 'rows' | 'signal'> {
  /** Dtype of the values; `'F32'` by default. */
  readonly dtype?: DequantizedDtype | undefined;
  /** Most bytes of values in a block, of which each has at least one row; 16 777 216 by default. */
  readonly maxByteLength?: number | undefined;
}

/** Some rows of a logical tensor. */
export interface RowBlock {
  /** The first row. */
  readonly row: number;
  /** Their values, one row after the other: a Float32Array, or bit patterns as a Uint16Array. Yours to keep. */
  readonly values: DequantizedData;
  /** How many finite values became infinite in BF16 or F16. */
  readonly overflows: number;
}

/** Names of the options. */
export const ROWS_OPTIONS: OptionNames<DequantizeRowsOptions> = { rows: true, into: true };
/** Names of the options, of `cast` too. */
export const ASYNC_OPTIONS: OptionNames<DequantizeRowsAsyncOptions> = {
  ...ROWS_OPTIONS,
  signal: true,
  onProgress: true,
};
/** Names of the options. */
export const PART_OPTIONS: OptionNames<DequantizePartOptions> = { signal: true };
/** Names of the options. */
export const BLOCKS_OPTIONS: OptionNames<RowBlocksOptions> = {
  rows: true,
  signal: true,
  dtype: true,
  maxByteLength: true,
};

/** Returns the option `rows`, or all rows; throws a TypeError or a RangeError for others than there are. */
export function requireRows(rows: unknown, rowCount: number): readonly [number, number] {
  if (rows === undefined) return [0, rowCount];
  if (!Array.isArray(rows) || rows.length !== 2) {
    throw argumentTypeError('rows', '[first, last]', rows);
  }
  const [first, last] = rows as [number, number];
  requireInteger('rows[0]', first, 0, rowCount);
  requireInteger('rows[1]', last, first, rowCount);
  return [first, last];
}

/** Throws unless `into` is an array for so many bit patterns of 16 bits. */
export function requireHalves(into: Uint16Array, count: number): void {
  if (!isTypedArray(into) || tagOf(into) !== 'Uint16Array') {
    throw argumentTypeError('into', 'a Uint16Array', into);
  }
  if (into.length === count) return;
  throw argumentRangeError('the length of into', `${count}, one per value`, into.length);
}
