/** A tensor that is assembled from pieces: its bytes are copied from theirs on use. */

import type { TensorEntry } from '../../file/source/tensor-info.js';
import type { Computation, ViewTensor } from '../../file/source/view.js';
import { DTYPES, type Dtype } from '../../header/dtype.js';
import { tensorByteLength } from '../../header/tensor-spec.js';
import type { SliceIndices } from '../../tensor/slice.js';
import type { StorageRange } from '../../tensor/storage-range.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
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

/** Where pieces are found. */
interface PieceBase {
  getTensor(name: string): Tensor;
}

/** Bytes of a piece that are read at once where its runs are short. */
const BATCH_BYTE_LENGTH = 2 ** 20;

/** The bytes of a piece, and their places in the whole tensor. */
interface PlacedPiece {
  readonly range: StorageRange;
  readonly offset: number;
  readonly runs: BoxRuns;
}

/** Returns the tensor of the view. A piece that is the whole tensor is shown itself: mapped, if the base is. */
export function assembledTensor(base: PieceBase, tensor: AssembledTensor): ViewTensor {
  const { name, dtype, shape, pieces } = tensor;
  const [first] = pieces as [Piece];
  const { file, dataOffsets } = first.entry;
  const byteLength = tensorByteLength({ dtype, shape });
  const isWhole = pieces.length === 1 && first.shape.every((size, axis) => size === shape[axis]);
  return {
    entry: Object.freeze({ name, file, dtype, shape, dataOffsets, byteLength }),
    sources: pieces.map(({ entry }) => entry.name),
    computation: isWhole ? null : assembly(base, tensor),
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
    const computed = range.computed(tensor.name, byteLength, (target, position) => {
      for (const piece of placed) fillFrom(piece, target, position);
    });
    return TensorOf.of(tensor.name, tensor.dtype, tensor.shape, computed);
  };
  return {
    compute,
    // The base is local: there is nothing to wait for.
    fetch: async (index: SliceIndices, { signal }) => {
      const names = tensor.pieces.map(({ entry }) => entry.name);
      const whole = compute(new Map(names.map((name) => [name, base.getTensor(name)])));
      const part = index.length === 0 ? whole : whole.slice(...index);
      return await TensorOf.copyYielding(part, signal);
    },
  };
}

/**
 * Copies the piece's bytes that fall into `target`, which begins at a position of the tensor. Runs are contiguous in
 * the piece: short ones are read together.
 */
function fillFrom(
  { range, offset, runs }: PlacedPiece,
  target: Uint8Array,
  position: number,
): void {
  const end = position + target.length;
  const atOnce = Math.max(1, Math.floor(BATCH_BYTE_LENGTH / runs.byteLength));
  let run = runs.firstAfter(position);
  const last = runs.firstAfter(end - 1);
  const isLastIn = last < runs.count && runs.positionOf(last) < end;
  const limit = isLastIn ? last + 1 : last;
  if (run >= limit) return;
  for (; run < limit; run += atOnce) {
    const count = Math.min(atOnce, limit - run);
    const from = offset + run * runs.byteLength;
    if (count === 1) {
      const at = runs.positionOf(run);
      const [begin, until] = [Math.max(at, position), Math.min(at + runs.byteLength, end)];
      range.copyTo(target.subarray(begin - position, until - position), from + begin - at);
      continue;
    }
    const batch = new Uint8Array(count * runs.byteLength);
    range.copyTo(batch, from);
    for (let i = 0; i < count; i++) {
      const at = runs.positionOf(run + i);
      const [begin, until] = [Math.max(at, position), Math.min(at + runs.byteLength, end)];
      const first = i * runs.byteLength - at;
      target.set(batch.subarray(first + begin, first + until), begin - position);
    }
  }
  range.verify();
}
