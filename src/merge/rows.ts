/** Merged weights as tensors: rows are computed as float64 when they are used. */

import { SafetensorsError } from '../errors/errors.js';
import { allocate } from '../errors/out-of-memory.js';
import { DTYPES } from '../header/dtype.js';
import { fillSlice } from '../tensor/fill-slice.js';
import { type FillUnits, fillUnits, unitsToFill } from '../tensor/fill-units.js';
import { nativeKernels } from '../tensor/float32/kernels.js';
import { planSlice, type SliceIndices } from '../tensor/slice.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import { cut } from '../work/byte-ranges.js';
import { Transfer, type TransferOptions } from '../work/transfer.js';
import { runAsync, runSync } from '../work/work.js';
import { yieldIfDue } from '../work/yielding.js';
import { type EncodedTensor, writeValues } from './values.js';

/** Values that are computed at once: rows of about 2 MiB. */
const WINDOW_LENGTH = 2 ** 18;

/** A merged weight: a matrix of `columns`, with as many rows as its shape gives. */
export interface MergedTensor extends EncodedTensor {
  readonly shape: readonly number[];
  readonly columns: number;
}

/** Number of rows that are computed at once. */
export function rowsAtOnce(columns: number): number {
  return Math.max(1, Math.floor(WINDOW_LENGTH / Math.max(columns, 1)));
}

/**
 * Rows that kernels compute from stored ones. Both return false where they cannot, or where values are not finite,
 * which is an error: the caller computes such rows in float64, and finds out which.
 */
export interface DirectRows {
  /** Computes `count` rows from `first` on as elements. */
  fill(first: number, count: number, output: Uint8Array): boolean;
  /** As `fill`, on threads of the pool. */
  fillOnPool(
    first: number,
    count: number,
    output: Uint8Array,
    signal: AbortSignal | undefined,
  ): Promise<boolean>;
}

/**
 * Returns a merged weight whose rows are computed when they are used: on this thread, or by writers on the pool where
 * kernels can.
 *
 * @param source the open tensor that it is a change of: its file stays open as long as the result is in use
 * @param fill computes the rows from `first` on, as many as fit; the memory may have other values before
 * @param direct computes the same rows
 * @param fillYielding as `fill`, between other events: for writers
 */
export function mergedTensor(
  source: Tensor,
  merged: MergedTensor,
  fill: (first: number, values: Float64Array) => void,
  direct: DirectRows | null = null,
  fillYielding?: (
    first: number,
    values: Float64Array,
    signal: AbortSignal | undefined,
  ) => Promise<void>,
): Tensor {
  const { name, dtype, shape, columns } = merged;
  const width = DTYPES[dtype].bits / 8;
  const units = { byteLength: columns * width, atOnce: rowsAtOnce(columns) };
  const byteLength = shape.reduce((product, size) => product * size, width);
  // Kernels don't count values of F64 that are not finite.
  const used = dtype === 'F64' || nativeKernels() === undefined ? null : direct;
  const fillRows: FillUnits = (first, count, output) => {
    const length = count * columns;
    const memory = spare !== undefined && spare.length >= length ? spare : new Float64Array(length);
    // Computing rows may need those of another merged tensor.
    spare = undefined;
    const values = memory.subarray(0, length);
    fill(first, values);
    runSync(writeValues(values, merged, output));
    if (length <= WINDOW_LENGTH) spare = memory;
  };
  const range = TensorOf.sourceOf(source).computed(
    name,
    byteLength,
    (target, position) =>
      fillUnits(target, position, units, (first, count, output) => {
        if (used?.fill(first, count, output) !== true) fillRows(first, count, output);
      }),
    used === null && fillYielding === undefined
      ? undefined
      : async (target, position, signal) => {
          for (const { first, count, bytes } of unitsToFill(target, position, units)) {
            signal?.throwIfAborted();
            if ((await used?.fillOnPool(first, count, bytes, signal)) === true) continue;
            if (fillYielding === undefined) {
              fillRows(first, count, bytes);
              continue;
            }
            const values = new Float64Array(count * columns);
            await fillYielding(first, values, signal);
            await runAsync(writeValues(values, merged, bytes), signal);
          }
        },
  );
  return TensorOf.of(name, dtype, shape, range);
}

/** The merged weight created last: creating one for every row would take as long as the row. */
export class LastMergedTensor {
  // Weak: a tensor keeps files of its sources.
  #last: WeakRef<{ readonly sources: readonly Tensor[]; readonly tensor: Tensor }> | undefined;

  /** Returns the merged weight over these sources, as `create` does, without the memory of an earlier one. */
  over(sources: readonly Tensor[], create: () => Tensor): Tensor {
    const last = this.#last?.deref();
    if (last !== undefined && sources.every((source, i) => source === last.sources[i])) {
      return TensorOf.again(last.tensor);
    }
    const tensor = create();
    this.#last = new WeakRef({ sources, tensor });
    return TensorOf.again(tensor);
  }
}

/**
 * Computes a slice of a merged weight into new memory: all of it for `[]`.
 *
 * @param fill as for `mergedTensor`, after it has fetched what it needs
 * @throws SafetensorsError `SAFETENSORS_TENSOR_TOO_LARGE`, `SAFETENSORS_NON_FINITE`; `signal.reason`
 */
export async function mergedSlice(
  merged: MergedTensor,
  index: SliceIndices,
  options: TransferOptions,
  fill: (first: number, values: Float64Array) => Promise<void>,
): Promise<Tensor> {
  const { name, dtype, shape, columns, path } = merged;
  const context = { path, tensor: name };
  const { bits } = DTYPES[dtype];
  const slice = planSlice(shape, index, bits, context);
  if (slice.byteLength > MAX_BYTE_LENGTH) {
    const message = `${slice.byteLength} bytes do not fit into one buffer of this runtime; use getSlice()`;
    throw new SafetensorsError('SAFETENSORS_TENSOR_TOO_LARGE', message, context);
  }
  const bytes = allocate(Uint8Array, slice.byteLength, context);
  const transfer = new Transfer(slice.byteLength, options);
  const rowByteLength = (columns * bits) / 8;
  const fillRows = async (begin: number, output: Uint8Array<ArrayBuffer>): Promise<void> => {
    const rows = cut(begin, begin + output.length / rowByteLength, rowsAtOnce(columns));
    for (const { begin: first, end } of rows) {
      await yieldIfDue();
      options.signal?.throwIfAborted();
      const values = new Float64Array((end - first) * columns);
      await fill(first, values);
      const [from, to] = [(first - begin) * rowByteLength, (end - begin) * rowByteLength];
      await runAsync(writeValues(values, merged, output.subarray(from, to)), options.signal);
      if (output.buffer === bytes.buffer) transfer.advance(to - from);
    }
  };
  if (slice.byteLength > 0) await fillSlice(slice, rowByteLength, bytes, fillRows);
  transfer.finish();
  const limits = { maxBufferByteLength: Number.MAX_SAFE_INTEGER, path };
  return TensorOf.ofBytes(name, dtype, slice.shape, bytes, limits);
}

/** Memory of rows that are done: new memory costs more than what is computed in it. */
let spare: Float64Array<ArrayBuffer> | undefined;

/** What engines of today allow a buffer. */
const MAX_BYTE_LENGTH = 2 ** 32 - 1;
