/** Fetches a slice of a tensor whose pieces are remote: of each piece only what the slice takes. */

import { SafetensorsError } from '../../../errors/errors.js';
import { allocate } from '../../../errors/out-of-memory.js';
import { DTYPES } from '../../../header/dtype.js';
import {
  planSlice,
  type SliceAxis,
  type SliceIndex,
  type SliceIndices,
  sliceAxes,
} from '../../../tensor/slice.js';
import { requireBuffer } from '../../../tensor/storage-range.js';
import { type Tensor, TensorOf } from '../../../tensor/tensor.js';
import { withScope } from '../../../work/scope.js';
import { progressOfPart, Transfer, type TransferOptions } from '../../../work/transfer.js';
import { BoxRuns } from './box-runs.js';
import { areEqual, differing } from './duplicates.js';
import type { AssembledTensor, Piece } from './piece.js';
import { type Box, formatBox } from './tiling.js';

/** A remote checkpoint of pieces. Slices that are requested in the same turn share requests. */
export interface RemotePieces {
  readonly path: string;
  /** Longest buffer of the runtime, in bytes. */
  readonly maxBufferByteLength: number;
  getSlice(name: string, index: SliceIndices, options: TransferOptions): Promise<Tensor>;
  /** The name of a piece's file, for errors. */
  fileOf(name: string): string;
}

/** What a slice takes from a piece. */
interface PiecePart {
  readonly piece: Piece;
  readonly index: SliceIndices;
  /** Its place in the slice before single indices drop their dimensions. */
  readonly box: Box;
}

/**
 * Fetches a slice into new memory; all for `[]`.
 *
 * @throws SafetensorsError as `planSlice`; `SAFETENSORS_TENSOR_TOO_LARGE`, `SAFETENSORS_OUT_OF_MEMORY`; FormatError
 *   `SAFETENSORS_INVALID_DISTRIBUTED` for pieces at the same place that differ; the errors of the requests
 */
export async function fetchAssembled(
  base: RemotePieces,
  { name, dtype, shape, pieces }: AssembledTensor,
  index: SliceIndices,
  { signal, onProgress }: TransferOptions,
): Promise<Tensor> {
  const { bits } = DTYPES[dtype];
  const { path, maxBufferByteLength } = base;
  const context = { path, tensor: name };
  const { byteLength, shape: resultShape } = planSlice(shape, index, bits, context);
  requireBuffer({ maxBufferByteLength, path }, name, byteLength, 'slices');
  const axes = sliceAxes(shape, index, context);
  const whole = axes.map(({ count }) => count);
  const parts = pieces.flatMap((piece) => partOf(piece, axes) ?? []);
  const placed = parts.map((part) => {
    if (BoxRuns.areBytes(part.box, whole, bits))
      return { part, runs: new BoxRuns(part.box, whole, bits) };
    const message = `elements of ${bits} bits can only be assembled on whole bytes`;
    throw new SafetensorsError('SAFETENSORS_MISALIGNED_SLICE', message, context);
  });
  const target = allocate(Uint8Array, byteLength, context);
  const total = placed.reduce((sum, { part, runs }) => {
    return sum + runs.count * runs.byteLength * (1 + part.piece.copies.length);
  }, 0);
  const transfer = new Transfer(total, { signal, onProgress });
  await withScope([signal], async (scope) => {
    const fetch = async (piece: string, of: SliceIndices): Promise<Uint8Array> => {
      const options = { signal: scope.signal, onProgress: progressOfPart(transfer) };
      return (await base.getSlice(piece, of, options)).bytes;
    };
    const work = placed.map(async ({ part: { piece, index: own }, runs }) => {
      const copies = piece.copies.map(async (copy) => ({ copy, bytes: await fetch(copy, own) }));
      const [bytes, ...others] = await Promise.all([fetch(piece.entry.name, own), ...copies]);
      for (const other of others) {
        if (areEqual(bytes, other.bytes)) continue;
        const files = [piece.entry.file, base.fileOf(other.copy)] as const;
        throw differing(formatBox(piece), files, context);
      }
      place(bytes, runs, target);
    });
    await Promise.all(work);
  });
  transfer.finish();
  return TensorOf.ofBytes(name, dtype, resultShape, target, { maxBufferByteLength, path });
}

/** What a slice takes from a piece; undefined for nothing. Dimensions of single indices stay, with size 1. */
function partOf(piece: Piece, axes: readonly SliceAxis[]): PiecePart | undefined {
  const [offsets, sizes, index]: [number[], number[], SliceIndex[]] = [[], [], []];
  for (const [axis, { start, step, count }] of axes.entries()) {
    const begin = piece.offsets[axis] as number;
    const end = begin + (piece.shape[axis] as number);
    // The positions are start, start + step, …: the first and the last of them within the piece.
    const [near, far] = step > 0 ? [begin, end - 1] : [end - 1, begin];
    const first = Math.max(0, Math.ceil((near - start) / step));
    const last = Math.min(count - 1, Math.floor((far - start) / step));
    if (first > last) return undefined;
    offsets.push(first);
    sizes.push(last - first + 1);
    const after = start + last * step - begin + Math.sign(step);
    index.push([start + first * step - begin, after < 0 ? null : after, step]);
  }
  return { piece, index, box: { offsets, shape: sizes } };
}

/** Copies the bytes of a part to its place in the slice. */
function place(bytes: Uint8Array, runs: BoxRuns, target: Uint8Array): void {
  const { byteLength, count } = runs;
  for (let run = 0; run < count; run++) {
    const begin = run * byteLength;
    target.set(bytes.subarray(begin, begin + byteLength), runs.positionOf(run));
  }
}
