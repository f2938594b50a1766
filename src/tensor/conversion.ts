/**
 * A tensor to float32 on the thread pool, window by window.
 *
 * A thread of the pool works on bare addresses, and JavaScript can take a buffer's memory away at
 * any time: by transferring or resizing it, by closing a file with `detach`. So threads get only
 * memory that no one else can reach. Bytes of a mapping are looked at through a buffer of our own;
 * a fresh result is known to nobody before it is complete. Whatever else is involved, the caller's
 * array or ordinary memory as the source, is copied from or to arrays of our own, in small windows
 * on the JavaScript thread, where it can be checked first.
 */

import { requireSignal } from '../errors/arguments.js';
import { convertOnPool, hasPool, requireInto } from '../float32/kernels.js';
import { valueCountOf } from '../float32/to-float32.js';
import { DTYPES, type Dtype } from '../format/dtype.js';
import { isSharedBuffer } from '../format/typed-arrays.js';
import type { StorageRange } from './storage-range.js';

/**
 * Threads of the pool, which has four by default, for one tensor: two saturate the memory of common
 * machines, and other work gets its turn.
 */
const LANE_COUNT = 2;

/**
 * Values that a thread converts at once when windows are copied: copying one blocks the event loop
 * for below a millisecond. A multiple of four, so that windows of packed dtypes are whole bytes.
 */
const COPIED_WINDOW_LENGTH = 2 ** 18;

/**
 * As above, at most, when nothing has to be copied: some milliseconds, after which an abort is
 * noticed and others waiting for the pool get their turn. A multiple of the former.
 */
const DIRECT_WINDOW_LENGTH = 2 ** 23;

/** Options of `Tensor.toFloat32`. */
export interface ConvertOptions<Into extends Float32Array = Float32Array> {
  /**
   * Takes the values, and is the result; of exactly as many items as there are values. It must not
   * be over memory of the tensor, unless that is F32 or C64 itself. A new array by default.
   */
  readonly into?: Into | undefined;
}

/** Options of `Tensor.toFloat32Async`. */
export interface ConvertAsyncOptions<Into extends Float32Array = Float32Array>
  extends ConvertOptions<Into> {
  /** Ends the conversion early. */
  readonly signal?: AbortSignal | undefined;
}

/** The elements to convert. */
export interface PackedElements {
  readonly dtype: Dtype;
  readonly source: StorageRange;
  /** Where the first element is in the source, in bytes. */
  readonly byteOffset: number;
}

/** Arrays of one lane, made when needed. */
interface Scratch {
  bytes?: Uint8Array<ArrayBuffer>;
  values?: Float32Array<ArrayBuffer>;
}

/**
 * Converts and resolves with `into`, or a new array. When this settles, no thread works for it any
 * more.
 *
 * Rejects with a `TypeError` or `RangeError` when an option cannot be used, or `into` loses its
 * memory meanwhile; with the signal's reason when that is aborted; with `SAFETENSORS_FILE_CLOSED`
 * or `SAFETENSORS_FILE_CHANGED` when the file is closed or changes meanwhile.
 *
 * @param valueCount number of values of the result; the caller has checked that an array can be that
 *   long
 */
export async function convertOnPoolInWindows(
  elements: PackedElements,
  valueCount: number,
  { into, signal }: ConvertAsyncOptions,
): Promise<Float32Array> {
  requireSignal(signal);
  if (into !== undefined) requireInto(into, valueCount);
  signal?.throwIfAborted();
  const output = into ?? new Float32Array(valueCount);
  const isDirect = into === undefined || isSharedBuffer(into.buffer);
  const runsFree = isDirect && elements.source.isHoldable && hasPool();
  const length = runsFree ? directWindowLength(valueCount) : COPIED_WINDOW_LENGTH;

  let next = 0;
  const runLane = async (): Promise<void> => {
    const scratch: Scratch = {};
    try {
      while (next < valueCount) {
        const first = next;
        next = Math.min(first + length, valueCount);
        const count = next - first;
        if (isDirect) {
          const byteOffset = output.byteOffset + first * Float32Array.BYTES_PER_ELEMENT;
          const values = new Float32Array(output.buffer, byteOffset, count);
          await convertWindow(elements, first, values, scratch);
        } else {
          scratch.values ??= new Float32Array(Math.min(length, valueCount));
          const values = scratch.values.subarray(0, count);
          await convertWindow(elements, first, values, scratch);
          requireInto(output, valueCount);
          output.set(values, first);
        }
        signal?.throwIfAborted();
      }
    } catch (error) {
      // The other lane stops after its window, too.
      next = valueCount;
      throw error;
    }
  };
  const laneCount = Math.min(LANE_COUNT, Math.ceil(valueCount / length));
  const lanes = await Promise.allSettled(Array.from({ length: laneCount }, runLane));
  const failed = lanes.find((lane) => lane.status === 'rejected');
  if (failed !== undefined) throw failed.reason;
  return output;
}

/** Long windows, but two for every lane, so that none is idle while another has a long way to go. */
function directWindowLength(valueCount: number): number {
  const units = Math.ceil(valueCount / (2 * LANE_COUNT) / COPIED_WINDOW_LENGTH);
  return Math.min(Math.max(units, 1) * COPIED_WINDOW_LENGTH, DIRECT_WINDOW_LENGTH);
}

/** `output` is over memory that cannot be taken away. */
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

/** In the lane's own array. */
function copyOf(window: Uint8Array, scratch: Scratch): Uint8Array<ArrayBuffer> {
  if (scratch.bytes === undefined || scratch.bytes.length < window.length) {
    scratch.bytes = new Uint8Array(window.length);
  }
  const copy = scratch.bytes.subarray(0, window.length);
  copy.set(window);
  return copy;
}
