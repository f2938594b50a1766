/** A tensor that is assembled from pieces: its bytes are copied from theirs, or fetched, on use. */

import type { Computation, ViewTensor } from '../../../file/source/view.js';
import { DTYPES } from '../../../header/dtype.js';
import { tensorByteLength } from '../../../header/tensor-spec.js';
import type { SliceIndices } from '../../../tensor/slice.js';
import type { StorageRange } from '../../../tensor/storage-range.js';
import { type Tensor, TensorOf } from '../../../tensor/tensor.js';
import { BoxRuns } from './box-runs.js';
import { fetchAssembled, type RemotePieces } from './fetch-assembled.js';
import type { AssembledTensor, Piece } from './piece.js';

/** A local checkpoint of pieces. */
export interface LocalPieces {
  getTensor(name: string): Tensor;
}

/** Where pieces are: at hand, or fetched by ranges. */
export type PieceSource = { readonly local: LocalPieces } | { readonly remote: RemotePieces };

/** Bytes of a piece that are read at once where its runs are short. */
const BATCH_BYTE_LENGTH = 2 ** 20;

/** The bytes of a piece, and their places in the whole tensor. */
interface PlacedPiece {
  readonly range: StorageRange;
  readonly offset: number;
  readonly runs: BoxRuns;
}

/** Returns the tensor of the view. A piece that is the whole tensor is shown itself: mapped, if the base is. */
export function assembledTensor(source: PieceSource, tensor: AssembledTensor): ViewTensor {
  const { name, dtype, shape, pieces } = tensor;
  const [first] = pieces as [Piece];
  const { file, dataOffsets } = first.entry;
  const byteLength = tensorByteLength({ dtype, shape });
  const isOnly = pieces.length === 1 && first.copies.length === 0;
  const isWhole = isOnly && first.shape.every((size, axis) => size === shape[axis]);
  return {
    entry: Object.freeze({ name, file, dtype, shape, dataOffsets, byteLength }),
    sources: pieces.map(({ entry }) => entry.name),
    computation: isWhole ? null : assembly(source, tensor),
  };
}

function assembly(source: PieceSource, tensor: AssembledTensor): Computation {
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
    fetch: async (index: SliceIndices, options) => {
      if ('remote' in source) return await fetchAssembled(source.remote, tensor, index, options);
      // There is nothing to wait for.
      const base = source.local;
      const names = tensor.pieces.map(({ entry }) => entry.name);
      const whole = compute(new Map(names.map((name) => [name, base.getTensor(name)])));
      const part = index.length === 0 ? whole : whole.slice(...index);
      return await TensorOf.copyYielding(part, options.signal);
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
