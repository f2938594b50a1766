/** Rows of a tensor as float32: which bytes they are, and their values, computed or converted. */

import {
  argumentTypeError,
  type OptionNames,
  requireInteger,
  requireSignal,
} from '../errors/arguments.js';
import { DTYPES, type Dtype } from '../header/dtype.js';
import { elementCountOf, matrixOf } from '../header/tensor-spec.js';
import { cut } from '../work/byte-ranges.js';
import { Transfer, type TransferOptions } from '../work/transfer.js';
import { yieldIfDue } from '../work/yielding.js';
import {
  CONVERT_ASYNC_OPTIONS,
  CONVERT_VALUES_OPTIONS,
  type ConvertAsyncOptions,
  type ConvertOptions,
  type PackedElements,
} from './conversion.js';
import { toFloat32 } from './float32/kernels.js';
import { valueCountOf } from './float32/to-float32.js';
import { planSlice } from './slice.js';

/** Values that are computed at once: rows of about 1 MiB, less than a millisecond of work for most layouts. */
const WINDOW_LENGTH = 2 ** 18;

/** Longest block of rows by default, in bytes. */
const DEFAULT_BLOCK_BYTE_LENGTH = 2 ** 24;

/** The option that chooses rows. */
interface RowsOption {
  /**
   * The rows [first, last); all by default. A row runs along the last dimension: a tensor of [E, R, K] has E × R rows
   * of K elements, one of a single dimension has one.
   */
  readonly rows?: readonly [first: number, last: number] | undefined;
}

/** Options of `Tensor.toFloat32`. */
export interface FloatRowsOptions<Into extends Float32Array = Float32Array>
  extends ConvertOptions<Into>,
    RowsOption {}

/** Options of `Tensor.toFloat32Async`. */
export interface FloatRowsAsyncOptions<Into extends Float32Array = Float32Array>
  extends ConvertAsyncOptions<Into>,
    TransferOptions,
    RowsOption {
  /** Ends the conversion early. */
  readonly signal?: AbortSignal | undefined;
}

/** Options of `Tensor.rowBlocks`. */
export interface RowBlocksOptions extends RowsOption {
  /** Most bytes of values in a block, of which each has at least one row; 16 777 216 by default. */
  readonly maxByteLength?: number | undefined;
  /** Ends the work early. */
  readonly signal?: AbortSignal | undefined;
}

/** Some rows of a tensor. */
export interface RowBlock {
  /** The first row. */
  readonly row: number;
  /** Their values, one row after the other. Yours to keep. */
  readonly values: Float32Array<ArrayBuffer>;
}

/** Names of the options. */
export const FLOAT_ROWS_OPTIONS: OptionNames<FloatRowsOptions> = {
  ...CONVERT_VALUES_OPTIONS,
  rows: true,
};
/** Names of the options. */
export const FLOAT_ROWS_ASYNC_OPTIONS: OptionNames<FloatRowsAsyncOptions> = {
  ...CONVERT_ASYNC_OPTIONS,
  rows: true,
  onProgress: true,
};
/** Names of the options. */
export const ROW_BLOCKS_OPTIONS: OptionNames<RowBlocksOptions> = {
  rows: true,
  maxByteLength: true,
  signal: true,
};

/** Returns the option `rows`, or all rows; throws a TypeError or a RangeError for others than there are. */
function requireRows(rows: unknown, rowCount: number): readonly [number, number] {
  if (rows === undefined) return [0, rowCount];
  if (!Array.isArray(rows) || rows.length !== 2) {
    throw argumentTypeError('rows', '[first, last]', rows);
  }
  const [first, last] = rows as [number, number];
  requireInteger('rows[0]', first, 0, rowCount);
  requireInteger('rows[1]', last, first, rowCount);
  return [first, last];
}

/** The elements of rows, and how many values they are. */
export interface FloatRows extends PackedElements {
  /** Whether they are all rows of the tensor, whose bytes it retains once they are read. */
  readonly isWhole: boolean;
  readonly byteLength: number;
  readonly valueCount: number;
  /** Values of a row. */
  readonly rowLength: number;
}

/**
 * Finds the elements of rows.
 *
 * @throws SafetensorsError `SAFETENSORS_MISALIGNED_SLICE` for rows of a packed dtype that don't end on a byte
 */
export function floatRowsOf(
  { dtype, source, byteOffset }: PackedElements,
  shape: readonly number[],
  rows: unknown,
): FloatRows {
  const { bits } = DTYPES[dtype];
  const matrix = matrixOf(shape);
  const rowLength = valueCountOf(dtype, matrix.columns);
  if (rows === undefined) {
    // Dimensions next to a 0 may be very large.
    const count = elementCountOf(shape);
    const place = { byteOffset, byteLength: (count * bits) / 8, isWhole: true };
    return { dtype, source, ...place, valueCount: valueCountOf(dtype, count), rowLength };
  }
  const [first, last] = requireRows(rows, matrix.rows);
  const plan = planSlice([matrix.rows, matrix.columns], [[first, last]], bits, source.context);
  const valueCount = (last - first) * rowLength;
  const begin = byteOffset + plan.byteOffset;
  const place = { byteOffset: begin, byteLength: plan.byteLength, isWhole: false };
  return { dtype, source, ...place, valueCount, rowLength };
}

/** Fills `output` on this thread, from the source's buffer, or window by window where the bytes are computed. */
export function fillFloats(elements: FloatRows, output: Float32Array): void {
  const { dtype, source, byteOffset, byteLength, isWhole } = elements;
  if (source.isComputed) {
    const length = windowLength(elements);
    for (let begin = 0; begin < output.length; begin += length) {
      computeWindow(elements, begin, Math.min(begin + length, output.length), output);
    }
  } else if (byteLength > 0) {
    const end = byteOffset + byteLength;
    const bytes = isWhole ? source.memory(byteOffset, end) : source.sharedOrWindow(byteOffset, end);
    toFloat32(dtype, bytes, output);
  }
  source.verify();
}

/** As above for bytes that are computed, between other events. */
export async function fillFloatsYielding(
  elements: FloatRows,
  output: Float32Array,
  options: TransferOptions,
): Promise<void> {
  const { signal } = options;
  requireSignal(signal);
  const transfer = new Transfer(elements.valueCount * Float32Array.BYTES_PER_ELEMENT, options);
  signal?.throwIfAborted();
  for (const { begin, end } of cut(0, elements.valueCount, windowLength(elements))) {
    await yieldIfDue();
    signal?.throwIfAborted();
    computeWindow(elements, begin, end, output);
    transfer.advance((end - begin) * Float32Array.BYTES_PER_ELEMENT);
  }
  elements.source.verify();
  transfer.finish();
}

/** Values of a window: whole rows. */
function windowLength({ rowLength }: FloatRows): number {
  const rows = Math.max(1, Math.floor(WINDOW_LENGTH / Math.max(rowLength, 1)));
  return Math.max(1, rows * rowLength);
}

function computeWindow(
  { dtype, source, byteOffset }: FloatRows,
  begin: number,
  end: number,
  output: Float32Array,
): void {
  const values = output.subarray(begin, end);
  const bytesPerValue = DTYPES[dtype].bits / 8 / valueCountOf(dtype, 1);
  const from = byteOffset + begin * bytesPerValue;
  if (dtype === 'F32') {
    source.copyTo(new Uint8Array(values.buffer, values.byteOffset, values.byteLength), from);
    return;
  }
  const length = values.length * bytesPerValue;
  const memory = spare !== undefined && spare.length >= length ? spare : new Uint8Array(length);
  // Computing a window may need one of another tensor.
  spare = undefined;
  const bytes = memory.subarray(0, length);
  source.copyTo(bytes, from);
  toFloat32(dtype, bytes, values);
  if (length <= WINDOW_LENGTH * MAX_WIDTH) spare = memory;
}

/** Width of the widest elements that are converted, in bytes. */
const MAX_WIDTH = 8;

/** Memory of a window that is done: new memory costs more than what is computed in it. */
let spare: Uint8Array<ArrayBuffer> | undefined;

/**
 * Returns the blocks of rows to read.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE`, RangeError `ERR_OUT_OF_RANGE` for unusable options
 */
export function rowBlocksOf(
  shape: readonly number[],
  dtype: Dtype,
  { rows, maxByteLength = DEFAULT_BLOCK_BYTE_LENGTH, signal }: RowBlocksOptions,
): Iterable<{ readonly begin: number; readonly end: number }> {
  requireSignal(signal);
  const matrix = matrixOf(shape);
  const [first, last] = requireRows(rows, matrix.rows);
  requireInteger('maxByteLength', maxByteLength, 1, Number.MAX_SAFE_INTEGER);
  const rowByteLength = valueCountOf(dtype, matrix.columns) * Float32Array.BYTES_PER_ELEMENT;
  if (rowByteLength === 0) return [];
  return cut(first, last, Math.max(1, Math.floor(maxByteLength / rowByteLength)));
}
