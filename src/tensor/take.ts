/**
 * Gathers rows of a tensor: their bytes, or their values as float32.
 *
 * The rows follow each other in the result, which is filled window by window on the JavaScript thread.
 * Threads of the pool read into memory of this module; they never touch the caller's arrays. Rows are not
 * allocated one by one.
 */

import {
  argumentRangeError,
  argumentTypeError,
  type OptionNames,
  requireSignal,
} from '../errors/arguments.js';
import { isTypedArray, plainBytes, tagOf } from '../errors/brand-checks.js';
import { SafetensorsError } from '../errors/errors.js';
import { DTYPES, type Dtype, type TypedArray } from '../header/dtype.js';
import { type ByteRange, cut } from '../work/byte-ranges.js';
import { yieldIfDue, yieldNow } from '../work/yielding.js';
import { requireInto, toFloat32 } from './float32/kernels.js';
import { valueCountOf } from './float32/to-float32.js';
import { planRows, type RowIndices, type RowPlan } from './rows.js';
import type { StorageRange } from './storage-range.js';
import { arraysOf } from './view-types.js';

/** Options of `Tensor.take`. */
export interface TakeOptions {
  /**
   * The array to write the rows to, whose memory is then that of the result; new memory by default. A
   * Uint8Array, or an array that `view` takes for the dtype, exactly as long as the rows. It must not
   * share memory with the tensor.
   */
  readonly into?: TypedArray | undefined;
}

/** Options of `Tensor.takeAsync`. */
export interface TakeAsyncOptions extends TakeOptions {
  /** Ends the work early. */
  readonly signal?: AbortSignal | undefined;
}

/** Names of the options. */
export const TAKE_OPTIONS: OptionNames<TakeOptions> = { into: true };
/** Names of the options. */
export const TAKE_ASYNC_OPTIONS: OptionNames<TakeAsyncOptions> = { ...TAKE_OPTIONS, signal: true };

/** The tensor to take rows from. */
export interface RowTable {
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly byteLength: number;
  readonly source: StorageRange;
  /** Position of the tensor in the source, in bytes. */
  readonly byteOffset: number;
}

/** The bytes of rows while they are taken: positions count bytes of the rows, which follow each other. */
interface RowBytes {
  /** Fills `target` with the bytes from `begin` on. */
  copy(begin: number, target: Uint8Array): void;
  /** The bytes [begin, end), where they are together in memory. */
  together(begin: number, end: number): Uint8Array | undefined;
}

/** Rows and the array to fill with them. */
export interface Taking<Output> {
  readonly table: RowTable;
  readonly plan: RowPlan;
  readonly output: Output;
  /**
   * Fills the part of the output that belongs to the bytes [begin, end) of the rows. Throws when the output was
   * detached.
   */
  readonly fill: (rows: RowBytes, begin: number, end: number) => void;
}

/**
 * Windows have at most this many bytes, counted in the file: about 0.2 ms of work. A multiple of 3 and
 * of 8, which makes windows of every dtype whole elements.
 */
const ROWS_WINDOW_BYTE_LENGTH = 3 << 18;

/** Most ranges that the storage reads or populates at once. */
const MAX_RANGES = 1024;

/** Most rows of a window, so that the rows cut at its two ends stay within the number of ranges. */
const MAX_ROWS = MAX_RANGES - 2;

/** Most memory of windows kept for later calls: a call fills from one window while it reads the next. */
const MAX_SPARE_BYTE_LENGTH = 2 * ROWS_WINDOW_BYTE_LENGTH;

/** Most windows kept, so that a fitting one is found at once. */
const MAX_SPARES = 64;

/** Rows to convert are collected in a block of this length, short enough for the processor's cache. */
const ROWS_BLOCK_BYTE_LENGTH = 3 << 16;

/** Up to this many bytes, a loop is faster than a call of `TypedArray.set`. */
const SHORT_RUN_BYTE_LENGTH = 64;

/** This thread's block, made on first use. Its content is not needed across events. */
let block: Uint8Array<ArrayBuffer> | undefined;

/** Memory of windows that no call uses now. It is never exposed, so the pool may write to it. */
const spares: Uint8Array<ArrayBuffer>[] = [];
let spareByteLength = 0;

/**
 * Prepares taking the bytes of rows. Checks everything that the caller gives.
 *
 * @throws As {@link planRows}; `SAFETENSORS_DTYPE_MISMATCH`, TypeError or RangeError for an unusable
 *   `into`; `SAFETENSORS_TENSOR_TOO_LARGE`, `SAFETENSORS_OUT_OF_MEMORY`
 */
export function takeBytes(
  table: RowTable,
  indices: RowIndices,
  into: TypedArray | undefined,
): Taking<Uint8Array<ArrayBuffer>> {
  const { source, dtype } = table;
  const plan = planRows(table, indices, source.context);
  const { byteLength } = plan;
  if (into !== undefined) requireBytesInto(into, dtype, source);
  const output =
    into === undefined
      ? source.allocate(byteLength)
      : (plainBytes(into) as Uint8Array<ArrayBuffer>);
  const requireLength = (): void => {
    if (output.length === byteLength) return;
    throw argumentRangeError('the length of into', `${byteLength} bytes`, output.length);
  };
  requireLength();
  requireOtherMemory(output, source);
  const fill = (rows: RowBytes, begin: number, end: number): void => {
    requireLength();
    rows.copy(begin, output.subarray(begin, end));
  };
  return { table, plan, output, fill };
}

/** The same for values as float32; `into` as for {@link requireInto}. */
export function takeFloats(
  table: RowTable,
  indices: RowIndices,
  into: Float32Array | undefined,
): Taking<Float32Array> {
  const { source, dtype } = table;
  const plan = planRows(table, indices, source.context);
  const bytesPerValue = DTYPES[dtype].bits / 8 / valueCountOf(dtype, 1);
  const valueCount = plan.byteLength / bytesPerValue;
  const output =
    into === undefined ? source.allocateFloats(valueCount) : requireInto(into, valueCount);
  requireOtherMemory(output, source);
  const fill = (rows: RowBytes, begin: number, end: number): void => {
    requireInto(output, valueCount);
    if (dtype === 'F32' || dtype === 'C64') {
      rows.copy(begin, new Uint8Array(output.buffer, output.byteOffset + begin, end - begin));
      return;
    }
    for (const { begin: from, end: to } of cut(begin, end, ROWS_BLOCK_BYTE_LENGTH)) {
      const values = output.subarray(from / bytesPerValue, to / bytesPerValue);
      toFloat32(dtype, packedRows(rows, from, to), values);
    }
  };
  return { table, plan, output, fill };
}

/** Fills the output synchronously. */
export function fillNow({ table, plan, fill }: Taking<unknown>): void {
  table.source.verifyOften();
  const rows = table.source.hasRangeReads ? readRows(table, plan) : storedRows(table, plan);
  const windows = cut(0, plan.byteLength, windowLength(plan));
  for (const { begin, end } of windows) fill(rows, begin, end);
  table.source.verify();
}

/**
 * Fills the output between other events, once the rows are in memory; one window is read ahead.
 *
 * Rejects with the signal's reason, and with the errors of {@link fillNow}.
 */
export async function fillYielding(
  { table, plan, fill }: Taking<unknown>,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { source } = table;
  requireSignal(signal);
  signal?.throwIfAborted();
  source.verifyOften();
  const windows = [...cut(0, plan.byteLength, windowLength(plan))];
  let coming = rowsInMemory(table, plan, windows[0]);
  for (const [i, { begin, end }] of windows.entries()) {
    const { rows, release } = await coming;
    coming = rowsInMemory(table, plan, windows[i + 1]);
    // Attach a handler: after an error below nobody waits for it.
    coming.catch(() => {});
    // A single window is short work: calls for a few rows, one after the other, take turns only when one is due.
    await (windows.length > 1 ? yieldNow() : yieldIfDue());
    signal?.throwIfAborted();
    fill(rows, begin, end);
    source.verify();
    release();
  }
}

/** The rows of a window, and what to call when they are no longer needed. */
interface WindowRows {
  readonly rows: RowBytes;
  readonly release: () => void;
}

/** Brings a window of the rows into memory, off the event loop. */
async function rowsInMemory(
  table: RowTable,
  plan: RowPlan,
  window: ByteRange | undefined,
): Promise<WindowRows> {
  const { source } = table;
  if (window === undefined || !source.hasRangeReads) {
    if (window !== undefined) await source.populate(rowRanges(table, plan, window));
    return { rows: storedRows(table, plan), release: () => {} };
  }
  const { begin, end } = window;
  const memory = takeSpare(end - begin) ?? source.allocate(end - begin);
  const bytes = memory.subarray(0, end - begin);
  await source.readRangesAsync(rowRanges(table, plan, window), bytes);
  const together = (from: number, to: number) => bytes.subarray(from - begin, to - begin);
  return {
    rows: { together, copy: (from, target) => target.set(together(from, from + target.length)) },
    release: () => keepSpare(memory),
  };
}

/** Returns memory of at least that length that was kept, if there is any. */
function takeSpare(byteLength: number): Uint8Array<ArrayBuffer> | undefined {
  const index = spares.findIndex((spare) => spare.length >= byteLength);
  if (index === -1) return undefined;
  const [spare] = spares.splice(index, 1) as [Uint8Array<ArrayBuffer>];
  spareByteLength -= spare.length;
  return spare;
}

/** Keeps memory for later calls, and drops what was kept longest where that is too much. */
function keepSpare(memory: Uint8Array<ArrayBuffer>): void {
  spares.push(memory);
  spareByteLength += memory.length;
  while (spares.length > MAX_SPARES || spareByteLength > MAX_SPARE_BYTE_LENGTH) {
    spareByteLength -= spares.shift()?.length ?? 0;
  }
}

function requireBytesInto(into: TypedArray, dtype: Dtype, source: StorageRange): void {
  if (!isTypedArray(into)) throw argumentTypeError('into', 'a typed array', into);
  const kind = tagOf(into);
  const fitting = new Set(['Uint8Array', ...arraysOf(dtype)]);
  if (fitting.has(kind)) return;
  const message = `expected into to be ${[...fitting].join(' or ')} for ${dtype}, found ${kind}; takeFloat32() gives values`;
  throw new SafetensorsError('SAFETENSORS_DTYPE_MISMATCH', message, source.context);
}

/** Refuses an `into` over the tensor's own memory: rows would be overwritten before they are read. */
function requireOtherMemory(output: Uint8Array | Float32Array, source: StorageRange): void {
  if (!source.isIn(output)) return;
  const found = `${output.byteLength} bytes of them`;
  throw argumentRangeError('into', 'memory that does not overlap the rows', found);
}

/** Length of a window in bytes, without too many ranges. */
function windowLength({ rowByteLength }: RowPlan): number {
  return Math.min(ROWS_WINDOW_BYTE_LENGTH, MAX_ROWS * rowByteLength);
}

/** The rows as the storage has them in memory, or reads them. */
function storedRows(table: RowTable, plan: RowPlan): RowBytes {
  const { source } = table;
  return {
    copy: (begin, target) => {
      const end = begin + target.length;
      const memory = source.shared();
      for (let position = begin; position < end; ) {
        const next = runEnd(plan, position, end);
        const from = placeOf(table, plan, position);
        const length = next - position;
        const written = position - begin;
        if (memory === undefined) {
          source.copyTo(target.subarray(written, written + length), from);
        } else if (length > SHORT_RUN_BYTE_LENGTH) {
          target.set(memory.subarray(from, from + length), written);
        } else {
          for (let i = 0; i < length; i++) target[written + i] = memory[from + i] as number;
        }
        position = next;
      }
    },
    together: (begin, end) => {
      if (runEnd(plan, begin, end) !== end) return undefined;
      const from = placeOf(table, plan, begin);
      return source.shared()?.subarray(from, from + end - begin);
    },
  };
}

/** The rows of a mapped file, read by position. */
function readRows(table: RowTable, plan: RowPlan): RowBytes {
  return {
    copy: (begin, target) =>
      table.source.readRanges(
        rowRanges(table, plan, { begin, end: begin + target.length }),
        target,
      ),
    together: () => undefined,
  };
}

/** Returns the bytes [begin, end) of the rows: in place when they are together, else gathered in the block. */
function packedRows(rows: RowBytes, begin: number, end: number): Uint8Array {
  const together = rows.together(begin, end);
  if (together !== undefined) return together;
  block ??= new Uint8Array(ROWS_BLOCK_BYTE_LENGTH);
  const packed = block.subarray(0, end - begin);
  rows.copy(begin, packed);
  return packed;
}

/** Returns begin and length of each run of a part of the rows. */
function rowRanges(table: RowTable, plan: RowPlan, { begin, end }: ByteRange): Float64Array {
  const rowCount = Math.ceil((end - begin) / plan.rowByteLength) + 1;
  const ranges = new Float64Array(2 * rowCount);
  let count = 0;
  for (let position = begin; position < end; ) {
    const next = runEnd(plan, position, end);
    ranges[count++] = placeOf(table, plan, position);
    ranges[count++] = next - position;
    position = next;
  }
  return ranges.subarray(0, count);
}

/** Returns where the run that starts at `position` ends: the bytes, up to `end`, that are contiguous in the file. */
function runEnd({ rows, rowByteLength }: RowPlan, position: number, end: number): number {
  let row = Math.floor(position / rowByteLength) + 1;
  while (row * rowByteLength < end && rows[row] === (rows[row - 1] as number) + 1) row++;
  return Math.min(row * rowByteLength, end);
}

/** Returns the position in the source of a byte of the rows. */
function placeOf(
  { byteOffset }: RowTable,
  { rows, rowByteLength }: RowPlan,
  position: number,
): number {
  const row = Math.floor(position / rowByteLength);
  return byteOffset + (rows[row] as number) * rowByteLength + (position - row * rowByteLength);
}
