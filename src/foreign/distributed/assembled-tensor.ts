/** A tensor that is put together from pieces: which part of the bytes of each, computed on use. */

import type { TensorEntry } from '../../file/source/tensor-info.js';
import type { Computation, ViewTensor } from '../../file/source/view.js';
import { DTYPES, type Dtype } from '../../header/dtype.js';
import { tensorByteLength } from '../../header/tensor-spec.js';
import type { SliceIndices } from '../../tensor/slice.js';
import type { StorageRange } from '../../tensor/storage-range.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import type { TransferOptions } from '../../work/transfer.js';
import { BoxRuns } from './box-runs.js';
import type { Box } from './tiling.js';

/** A piece: a tensor of the base, and its place in the whole tensor. */
export interface Piece extends Box {
  /** Its entry in the base. */
  readonly entry: TensorEntry;
}

/** A tensor and the pieces that tile it. */
export interface AssembledTensor {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
  readonly pieces: readonly Piece[];
}

/** Where pieces are read. */
interface PieceBase {
  getTensor(name: string, options?: TransferOptions): Tensor | Promise<Tensor>;
}

/** The bytes of a piece, and their places in the whole tensor. */
interface PlacedPiece {
  readonly range: StorageRange;
  readonly offset: number;
  readonly runs: BoxRuns;
}

/** Returns the tensor of the view. A single piece is the tensor itself: mapped, if the base is. */
export function assembledTensor(base: PieceBase, tensor: AssembledTensor): ViewTensor {
  const { name, dtype, shape, pieces } = tensor;
  const [first] = pieces as [Piece];
  const { file, dataOffsets } = first.entry;
  const byteLength = tensorByteLength({ dtype, shape });
  return {
    entry: Object.freeze({ name, file, dtype, shape, dataOffsets, byteLength }),
    sources: pieces.map(({ entry }) => entry.name),
    computation: pieces.length === 1 ? null : assembly(base, tensor),
  };
}

function assembly(base: PieceBase, tensor: AssembledTensor): Computation {
  const { bits } = DTYPES[tensor.dtype];
  const runs = tensor.pieces.map((piece) => new BoxRuns(piece, tensor.shape, bits));
  const compute = (sources: ReadonlyMap<string, Tensor>): Tensor => {
    const placed = tensor.pieces.map(({ entry }, i): PlacedPiece => {
      const piece = sources.get(entry.name) as Tensor;
      const [range, offset] = [TensorOf.sourceOf(piece), TensorOf.offsetOf(piece)];
      return { range, offset, runs: runs[i] as BoxRuns };
    });
    const [{ range }] = placed as [PlacedPiece];
    const byteLength = tensorByteLength(tensor);
    const made = range.computed(tensor.name, byteLength, (target, position) => {
      for (const piece of placed) fillFrom(piece, target, position);
    });
    return TensorOf.of(tensor.name, tensor.dtype, tensor.shape, made);
  };
  return {
    compute,
    fetch: async (index: SliceIndices, options) => {
      const sources = new Map<string, Tensor>();
      for (const { entry } of tensor.pieces) {
        sources.set(entry.name, await base.getTensor(entry.name, options));
      }
      const whole = compute(sources);
      const part = index.length === 0 ? whole : whole.slice(...index);
      return await TensorOf.copyYielding(part, options.signal);
    },
  };
}

/** Fills the bytes of `target`, which begins at a position of the whole tensor, that the piece has. */
function fillFrom(
  { range, offset, runs }: PlacedPiece,
  target: Uint8Array,
  position: number,
): void {
  const end = position + target.length;
  let isRead = false;
  for (let run = runs.firstAfter(position); run < runs.count; run++) {
    const at = runs.positionOf(run);
    if (at >= end) break;
    const [from, to] = [Math.max(at, position), Math.min(at + runs.byteLength, end)];
    const bytes = target.subarray(from - position, to - position);
    range.copyTo(bytes, offset + run * runs.byteLength + from - at);
    isRead = true;
  }
  if (isRead) range.verify();
}
