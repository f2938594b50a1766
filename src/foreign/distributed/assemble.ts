/** Assembles the tensors of a distributed checkpoint from pieces, and checks that these cover each tensor exactly. */

import { type ErrorContext, FormatError, quoteName } from '../../errors/errors.js';
import type { Checkpoint } from '../../file/checkpoint/checkpoint.js';
import type { TensorEntry } from '../../file/source/tensor-info.js';
import { VIEW_OF, type ViewTensor } from '../../file/source/view.js';
import { DTYPES } from '../../header/dtype.js';
import { type Tensor, TensorOf } from '../../tensor/tensor.js';
import { CACHED_BYTE_LENGTH, cut } from '../../work/byte-ranges.js';
import type { Work } from '../../work/work.js';
import { MAX_RANK } from '../tensors/tensor-layout.js';
import { assembledTensor, type Piece } from './assembled-tensor.js';
import { BoxRuns } from './box-runs.js';
import { formatBox, tilingFault } from './tiling.js';

/** The pieces of a tensor by the names that they have in the base. */
export interface PiecesOfTensor {
  readonly name: string;
  /** Its whole shape; undefined where only the pieces show it. */
  readonly shape: readonly number[] | undefined;
  /** By name in the base, the first indices of each piece. */
  readonly pieces: ReadonlyMap<string, readonly number[]>;
}

/**
 * Returns a checkpoint of whole tensors over one of pieces, which it owns and closes. Reads only duplicate pieces, to
 * compare them.
 *
 * @throws FormatError `SAFETENSORS_INVALID_DISTRIBUTED` for gaps, overlaps, and pieces that differ; errors of reading
 */
export function* assembled(
  base: Checkpoint,
  tensors: readonly PiecesOfTensor[],
  path: string,
): Work<Checkpoint> {
  const entries = new Map(base.entriesNow().map((entry) => [entry.name, entry]));
  const shown: ViewTensor[] = [];
  for (const tensor of tensors) {
    yield;
    shown.push(yield* assemble(base, tensor, entries, { path, tensor: tensor.name }));
  }
  const files = new Map(base.shards.map((name, at) => [name, at]));
  const orderOf = ({ entry: { file } }: ViewTensor): number => files.get(file) ?? 0;
  const beginOf = ({ entry: { dataOffsets } }: ViewTensor): number => dataOffsets[0];
  shown.sort((a, b) => orderOf(a) - orderOf(b) || beginOf(a) - beginOf(b));
  return base[VIEW_OF]({
    tensors: shown,
    metadata: base.metadata,
    problems: base.problems,
    quantMethod: null,
    close: (options) => base.close(options),
  });
}

function* assemble(
  base: Checkpoint,
  { name, shape: declared, pieces: offsets }: PiecesOfTensor,
  entries: ReadonlyMap<string, TensorEntry>,
  context: ErrorContext,
): Work<ViewTensor> {
  const all = Array.from(offsets, ([source, begins]): Piece => {
    const entry = entries.get(source) as TensorEntry;
    return { entry, offsets: begins, shape: entry.shape };
  });
  const [first] = all;
  if (first === undefined) throw invalid('the tensor has no pieces', context);
  const { dtype } = first.entry;
  for (const { entry, offsets: begins, shape } of all) {
    if (begins.length !== shape.length || shape.length !== first.shape.length) {
      const found = `[${first.shape.join(', ')}], and [${shape.join(', ')}] at [${begins.join(', ')}]`;
      throw invalid(`expected pieces of the same number of dimensions, found ${found}`, context);
    }
    if (shape.length > MAX_RANK) {
      const message = `expected at most ${MAX_RANK} dimensions, found ${shape.length}`;
      throw new FormatError('SAFETENSORS_FOREIGN_LIMIT', message, context);
    }
    if (entry.dtype !== dtype) {
      throw invalid(`expected pieces of one dtype, found ${dtype} and ${entry.dtype}`, context);
    }
  }
  const shape = declared ?? extentOf(all);
  for (const piece of all) requireInside(piece, shape, context);
  const pieces = yield* distinct(base, all, context);
  requireTiling(shape, pieces, context);
  const used = pieces.length === 0 ? [first] : pieces;
  requireWholeBytes(used, shape, context);
  return assembledTensor(base, { name, dtype, shape: Object.freeze([...shape]), pieces: used });
}

/** The smallest shape that holds all pieces. */
function extentOf(pieces: readonly Piece[]): number[] {
  const [first] = pieces as [Piece];
  return first.shape.map((_, axis) =>
    pieces.reduce((end, { offsets, shape }) => {
      return Math.max(end, (offsets[axis] as number) + (shape[axis] as number));
    }, 0),
  );
}

function requireInside(piece: Piece, whole: readonly number[], context: ErrorContext): void {
  const { offsets, shape } = piece;
  const isInside =
    whole.length === shape.length &&
    shape.every((size, axis) => (offsets[axis] as number) + size <= (whole[axis] as number));
  if (isInside) return;
  const found = `[${formatBox(piece)}] in ${quoteName(piece.entry.file)}`;
  throw invalid(`expected pieces within [${whole.join(', ')}], found ${found}`, context);
}

/** The pieces with elements, without duplicates. Throws when two at the same place have different bytes. */
function* distinct(
  base: Checkpoint,
  pieces: readonly Piece[],
  context: ErrorContext,
): Work<Piece[]> {
  const byPlace = new Map<string, Piece>();
  for (const piece of pieces) {
    if (piece.shape.includes(0)) continue;
    const place = formatBox(piece);
    const other = byPlace.get(place);
    byPlace.set(place, other ?? piece);
    if (other === undefined || (yield* haveSameBytes(base, other, piece))) continue;
    const files = [other, piece].map(({ entry }) => quoteName(entry.file)).join(' and ');
    throw invalid(`the pieces [${place}] in ${files} differ`, context);
  }
  return [...byPlace.values()];
}

function* haveSameBytes(base: Checkpoint, one: Piece, other: Piece): Work<boolean> {
  const tensors = [one, other].map(({ entry }) => base.getTensor(entry.name)) as [Tensor, Tensor];
  const buffers = [new Uint8Array(CACHED_BYTE_LENGTH), new Uint8Array(CACHED_BYTE_LENGTH)];
  for (const { begin, end } of cut(0, one.entry.byteLength, CACHED_BYTE_LENGTH)) {
    const [a, b] = tensors.map((tensor, i) => {
      const bytes = (buffers[i] as Uint8Array).subarray(0, end - begin);
      const range = TensorOf.sourceOf(tensor);
      range.copyTo(bytes, TensorOf.offsetOf(tensor) + begin);
      range.verify();
      return bytes;
    }) as [Uint8Array, Uint8Array];
    if (Buffer.compare(a, b) !== 0) return false;
    yield;
  }
  return true;
}

function requireTiling(
  shape: readonly number[],
  pieces: readonly Piece[],
  context: ErrorContext,
): void {
  if (shape.includes(0)) return;
  const fault = tilingFault(shape, pieces);
  if (fault === undefined) return;
  if (fault.kind === 'limit') {
    const message = `${pieces.length} pieces are too many, and too irregular, to check that they cover the tensor`;
    throw new FormatError('SAFETENSORS_FOREIGN_LIMIT', message, context);
  }
  const place = `[${formatBox(fault.box)}] of [${shape.join(', ')}]`;
  if (fault.kind === 'gap') throw invalid(`the elements ${place} are missing`, context);
  const files = fault.boxes.map((at) => quoteName(pieces[at]?.entry.file ?? ''));
  throw invalid(`the pieces in ${files.join(' and ')} overlap at ${place}`, context);
}

/** Throws for pieces of packed values whose rows end within a byte. */
function requireWholeBytes(
  pieces: readonly Piece[],
  shape: readonly number[],
  context: ErrorContext,
): void {
  for (const piece of pieces) {
    const { dtype } = piece.entry;
    if (BoxRuns.areBytes(piece, shape, DTYPES[dtype].bits)) continue;
    const message = `the piece [${formatBox(piece)}] of ${dtype} begins or ends within a byte`;
    throw new FormatError('SAFETENSORS_UNSUPPORTED_TENSOR', message, context);
  }
}

export function invalid(message: string, context: ErrorContext): FormatError {
  return new FormatError('SAFETENSORS_INVALID_DISTRIBUTED', message, context);
}
