/**
 * Converts a tensor to float32 on the thread pool, window by window.
 *
 * A pool thread works on bare addresses, and JavaScript can take a buffer's memory away at any time:
 * by transferring or resizing the buffer, or by closing a file with `detach`. Pool threads therefore
 * get only memory that no other code can reach: a buffer of our own over the mapping, a new result that
 * the caller does not have yet, shared memory. Everything else, such as the caller's array or a
 * source in ordinary memory, is copied from or to arrays of our own, in small windows on the
 * JavaScript thread, which checks it first.
 */

import type { OptionNames } from '../errors/arguments.js';
import { isSharedArrayBuffer } from '../errors/brand-checks.js';
import { DTYPES, type Dtype } from '../header/dtype.js';
import { cut } from '../work/byte-ranges.js';
import { limit, Slots } from '../work/slots.js';
import { Transfer, type TransferOptions } from '../work/transfer.js';
import { convertOnPool, hasPool, requireInto } from './float32/kernels.js';
import { valueCountOf } from './float32/to-float32.js';
import type { StorageRange } from './storage-range.js';

/**
 * Windows of a tensor that are converted at once, each on one of the pool's four threads (libuv's default): two
 * saturate the memory bandwidth of common machines and leave threads for other work.
 */
const CONVERTED_AT_ONCE = 2;

/**
 * Values per window when windows are copied: copying one blocks the event loop for less than a
 * millisecond. A multiple of four, which makes windows of packed dtypes whole bytes.
 */
const COPIED_WINDOW_LENGTH = 2 ** 18;

/**
 * Most values per window when nothing is copied: some milliseconds of work. Aborts are noticed between windows,
 * and other work of the pool gets its turn. A multiple of the length above.
 */
const DIRECT_WINDOW_LENGTH = 2 ** 23;

/** Options of `Tensor.toFloat32` and `Tensor.takeFloat32`. */
export interface ConvertOptions<Into extends Float32Array = Float32Array> {
  /**
   * The array to write the values to, which is then the result; a new array by default. It must have
   * exactly one item per value, and must not share memory with the tensor; for `toFloat32` of F32 and C64
   * it may.
   */
  readonly into?: Into | undefined;
}

/** Options of `Tensor.takeFloat32Async`, and of `Tensor.toFloat32Async` among others. */
export interface ConvertAsyncOptions<Into extends Float32Array = Float32Array>
  extends ConvertOptions<Into> {
  /** Ends the conversion early. */
  readonly signal?: AbortSignal | undefined;
}

/** Names of the options. */
export const CONVERT_VALUES_OPTIONS: OptionNames<ConvertOptions> = { into: true };
/** Names of the options. */
export const CONVERT_ASYNC_OPTIONS: OptionNames<ConvertAsyncOptions> = {
  ...CONVERT_VALUES_OPTIONS,
  signal: true,
};

/** The elements to convert. */
export interface PackedElements {
  readonly dtype: Dtype;
  readonly source: StorageRange;
  /** Position of the first element in the source, in bytes. */
  readonly byteOffset: number;
}

/** Arrays that one window passes on to the next, made on first use. */
interface Scratch {
  bytes?: Uint8Array<ArrayBuffer>;
  values?: Float32Array<ArrayBuffer>;
}

/**
 * Converts and resolves with `into` or a new array. All threads have finished when the promise settles.
 *
 * Rejects with a `TypeError` or `RangeError` for an unusable option, or when `into` loses its memory
 * meanwhile; with the signal's reason after an abort; with `SAFETENSORS_TENSOR_TOO_LARGE` or
 * `SAFETENSORS_OUT_OF_MEMORY` when a new array cannot be made; with `SAFETENSORS_FILE_CLOSED` or
 * `SAFETENSORS_FILE_CHANGED` when the file is closed or changes meanwhile.
 *
 * @param valueCount number of values of the result
 */
export async function convertOnPoolInWindows(
  elements: PackedElements,
  valueCount: number,
  { into, signal, onProgress }: ConvertAsyncOptions & TransferOptions,
): Promise<Float32Array> {
  const transfer = new Transfer(valueCount * Float32Array.BYTES_PER_ELEMENT, {
    signal,
    onProgress,
  });
  const given = into === undefined ? undefined : requireInto(into, valueCount);
  signal?.throwIfAborted();
  const output = given ?? elements.source.allocateFloats(valueCount);
  const isDirect = given === undefined || isSharedArrayBuffer(given.buffer);
  const runsFree = isDirect && elements.source.isHoldable && hasPool();
  const length = runsFree ? directWindowLength(valueCount) : COPIED_WINDOW_LENGTH;

  const free: Scratch[] = [];
  const windows = cut(0, valueCount, length);
  const slots = new Slots(CONVERTED_AT_ONCE);
  await limit(windows, slots, async ({ begin: first, end }) => {
    const scratch = free.pop() ?? {};
    const count = end - first;
    if (isDirect) {
      const byteOffset = output.byteOffset + first * Float32Array.BYTES_PER_ELEMENT;
      const values = new Float32Array(output.buffer, byteOffset, count);
      await convertWindow(elements, first, values, scratch);
    } else {
      scratch.values ??= new Float32Array(Math.min(length, valueCount));
      const values = scratch.values.subarray(0, count);
      await convertWindow(elements, first, values, scratch);
      requireInto(into as Float32Array, valueCount).set(values, first);
    }
    signal?.throwIfAborted();
    transfer.advance(count * Float32Array.BYTES_PER_ELEMENT);
    free.push(scratch);
  });
  transfer.finish();
  return into ?? output;
}

/** Returns the longest window that still gives every thread two windows, so that threads finish together. */
function directWindowLength(valueCount: number): number {
  const units = Math.ceil(valueCount / (2 * CONVERTED_AT_ONCE) / COPIED_WINDOW_LENGTH);
  return Math.min(Math.max(units, 1) * COPIED_WINDOW_LENGTH, DIRECT_WINDOW_LENGTH);
}

/** The memory of `output` must not be detached before the promise settles. */
async function convertWindow(
  { dtype, source, byteOffset }: PackedElements,
  firstValue: number,
  output: Float32Array,
  scratch: Scratch,
): Promise<void> {
  const bytesPerValue = DTYPES[dtype].bits / 8 / valueCountOf(dtype, 1);
  const begin = byteOffset + firstValue * bytesPerValue;
  const end = begin + output.length * bytesPerValue;
  const bytes = source.hold(begin, end) ?? copyOf(source.window(begin, end), scratch);
  await convertOnPool(dtype, bytes, output);
  source.verify();
}

/** Copies a window into an array that the next window reuses. */
function copyOf(window: Uint8Array, scratch: Scratch): Uint8Array<ArrayBuffer> {
  if (scratch.bytes === undefined || scratch.bytes.length < window.length) {
    scratch.bytes = new Uint8Array(window.length);
  }
  const copy = scratch.bytes.subarray(0, window.length);
  copy.set(window);
  return copy;
}
