/** Assembles the tensors of a distributed checkpoint from pieces, and checks that these cover each tensor exactly. */

import {
  type ErrorContext,
  FormatError,
  quoteName,
  type SafetensorsError,
} from '../../../errors/errors.js';
import type { FileMetadata } from '../../../file/shards/metadata.js';
import type { TensorEntry } from '../../../file/source/tensor-info.js';
import {
  VIEW_OF,
  type Viewable,
  type ViewParts,
  type ViewTensor,
} from '../../../file/source/view.js';
import { DTYPES } from '../../../header/dtype.js';
import { type Tensor, TensorOf } from '../../../tensor/tensor.js';
import { CACHED_BYTE_LENGTH, cut } from '../../../work/byte-ranges.js';
import type { Work } from '../../../work/work.js';
import { MAX_RANK } from '../../tensors/tensor-layout.js';
import { assembledTensor, type LocalPieces, type PieceSource } from './assembled-tensor.js';
import { BoxRuns } from './box-runs.js';
import { invalid } from './distributed-error.js';
import { areEqual, differing } from './duplicates.js';
import type { Piece } from './piece.js';
import { formatBox, tilingFault } from './tiling.js';

/** The pieces of a tensor by the names that they have in the base. */
export interface PiecesOfTensor {
  readonly name: string;
  /** Its whole shape; undefined where only the pieces show it. */
  readonly shape: readonly number[] | undefined;
  /** By name in the base, the first indices of each piece. */
  readonly pieces: ReadonlyMap<string, readonly number[]>;
}

/** A checkpoint of pieces. */
interface PieceBase<View> extends Viewable<View> {
  readonly shards: readonly string[];
  readonly metadata: FileMetadata;
  entriesNow(): readonly TensorEntry[];
  close(options: Parameters<NonNullable<ViewParts['close']>>[0]): void;
}

/** The checkpoint, its pieces, and where to read them. */
export interface AssembledParts {
  readonly tensors: readonly PiecesOfTensor[];
  readonly source: PieceSource;
  /** Errors for tensors that cannot be read. */
  readonly problems: readonly SafetensorsError[];
  readonly path: string;
}

/**
 * Returns a checkpoint of whole tensors over one of pieces, which it owns and closes. Reads only duplicate pieces of a
 * local checkpoint, to compare them; those of a remote one are compared when they are fetched.
 *
 * @throws FormatError `SAFETENSORS_INVALID_DISTRIBUTED` for gaps, overlaps, and pieces that differ; errors of reading
 */
export function* assembled<View>(
  base: PieceBase<View>,
  { tensors, source, problems, path }: AssembledParts,
): Work<View> {
  const entries = new Map(base.entriesNow().map((entry) => [entry.name, entry]));
  const shown: ViewTensor[] = [];
  for (const tensor of tensors) {
    yield;
    shown.push(yield* assemble(source, tensor, entries, { path, tensor: tensor.name }));
  }
  const files = new Map(base.shards.map((name, at) => [name, at]));
  const orderOf = ({ entry: { file } }: ViewTensor): number => files.get(file) ?? 0;
  const beginOf = ({ entry: { dataOffsets } }: ViewTensor): number => dataOffsets[0];
  shown.sort((a, b) => orderOf(a) - orderOf(b) || beginOf(a) - beginOf(b));
  return base[VIEW_OF]({
    tensors: shown,
    metadata: base.metadata,
    problems,
    quantMethod: null,
    close: (options) => base.close(options),
  });
}

function* assemble(
  source: PieceSource,
  { name, shape: declared, pieces: offsets }: PiecesOfTensor,
  entries: ReadonlyMap<string, TensorEntry>,
  context: ErrorContext,
): Work<ViewTensor> {
  const all = Array.from(offsets, ([piece, begins]): Piece => {
    const entry = entries.get(piece) as TensorEntry;
    return { entry, offsets: begins, shape: entry.shape, copies: [] };
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
  const pieces = yield* distinct(source, all, context);
  requireTiling(shape, pieces, context);
  const used = pieces.length === 0 ? [first] : pieces;
  requireWholeBytes(used, shape, context);
  return assembledTensor(source, { name, dtype, shape: Object.freeze([...shape]), pieces: used });
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
  source: PieceSource,
  pieces: readonly Piece[],
  context: ErrorContext,
): Work<Piece[]> {
  const byPlace = new Map<string, Piece>();
  for (const piece of pieces) {
    if (piece.shape.includes(0)) continue;
    const place = formatBox(piece);
    const other = byPlace.get(place);
    if (other === undefined) {
      byPlace.set(place, piece);
      continue;
    }
    if ('remote' in source) {
      byPlace.set(place, { ...other, copies: [...other.copies, piece.entry.name] });
      continue;
    }
    if (yield* haveSameBytes(source.local, other, piece)) continue;
    throw differing(place, [other.entry.file, piece.entry.file], context);
  }
  return [...byPlace.values()];
}

function* haveSameBytes(base: LocalPieces, one: Piece, other: Piece): Work<boolean> {
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
    if (!areEqual(a, b)) return false;
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
