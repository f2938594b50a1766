/** The pieces in `.distcp` files: each is a complete `torch.save` archive within the file. */

import { type ErrorContext, FormatError } from '../../errors/errors.js';
import type { Storage } from '../../tensor/storage/storage.js';
import type { ArchiveContent } from '../checksums.js';
import type { MemoryBudget } from '../pickle/memory-budget.js';
import type { ForeignTensor } from '../tensors/foreign-tensor.js';
import type { LayoutLimits } from '../tensors/tensor-layout.js';
import { isTensor, UnsupportedTensor } from '../torch/state-dict/values.js';
import { checkTorchTensors } from '../torch/tensors.js';
import { type ReadOptions, readZipCheckpoint } from '../torch/zip-checkpoint.js';
import type { ByteReader } from '../zip/archive.js';
import type { DistributedMetadata, ListedTensor, StoredItem } from './metadata-file.js';
import type { PiecesOfTensor } from './pieces/assemble.js';
import { invalid } from './pieces/distributed-error.js';
import { PieceNames } from './pieces/piece-names.js';
import { type Box, formatBox } from './pieces/tiling.js';

/** A piece and its place. */
export interface StoredPiece extends StoredItem {
  readonly name: string;
  readonly tensor: string;
  readonly dtype: string;
  readonly box: Box;
}

/** Options for reading pieces. */
export interface PieceOptions {
  readonly reading: ReadOptions;
  readonly layout: LayoutLimits;
}

/** torch's dtype of two values in a byte: an element is two of safetensors. */
const PACKED_DTYPE = 'float4_e2m1fn_x2';

/** The pieces of all files, and those of each tensor. */
interface PlacedPieces {
  readonly byFile: ReadonlyMap<string, readonly StoredPiece[]>;
  readonly tensors: readonly PiecesOfTensor[];
}

/** Returns the pieces of all files, and the names of those of each tensor. */
export function placedPieces(metadata: DistributedMetadata): PlacedPieces {
  const names = new PieceNames(metadata.tensors.map(({ name }) => name));
  const byFile = new Map<string, StoredPiece[]>();
  const tensors = metadata.tensors.map((tensor): PiecesOfTensor => {
    const pieces = new Map<string, readonly number[]>();
    for (const box of distinctChunks(tensor)) {
      const { name: whole, dtype, chunks } = tensor;
      const item = metadata.itemOf(whole, box.offsets);
      const name = chunks.length === 1 ? whole : names.of(whole, `[${formatBox(box)}]`);
      pieces.set(name, unpacked(dtype, box.offsets));
      const others = byFile.get(item.file) ?? [];
      others.push({ ...item, name, tensor: whole, dtype, box });
      byFile.set(item.file, others);
    }
    return { name: tensor.name, shape: unpacked(tensor.dtype, tensor.shape), pieces };
  });
  return { byFile, tensors };
}

/** The chunks of a tensor, of equal ones the first. */
function distinctChunks({ chunks }: ListedTensor): Box[] {
  return [...new Map(chunks.map((box) => [formatBox(box), box])).values()];
}

/** Converts sizes in torch elements to safetensors elements: a packed one is two values of the last dimension. */
function unpacked(dtype: string, sizes: readonly number[]): readonly number[] {
  if (dtype !== PACKED_DTYPE || sizes.length === 0) return sizes;
  return [...sizes.slice(0, -1), 2 * (sizes.at(-1) as number)];
}

/**
 * Throws for pieces beyond the end of the file, and for pieces that share bytes: reading them all would take longer
 * than the file is.
 */
export function requirePlaces(
  pieces: readonly StoredPiece[],
  fileByteLength: number,
  context: ErrorContext,
): void {
  const sorted = pieces.toSorted((a, b) => a.begin - b.begin);
  let end = 0;
  for (const { begin, byteLength, tensor, box } of sorted) {
    if (begin < end) {
      const message = `the piece [${formatBox(box)}] at byte ${begin} overlaps another, which ends at byte ${end}`;
      throw invalid(message, { ...context, tensor });
    }
    end = begin + byteLength;
    if (end <= fileByteLength) continue;
    const place = `bytes ${begin} to ${end}`;
    const message = `the piece [${formatBox(box)}] at ${place} is beyond the end of the file, ${fileByteLength}`;
    throw new FormatError('SAFETENSORS_INCOMPLETE_FILE', message, { ...context, tensor });
  }
}

/** A piece whose description was read. */
export interface ReadPiece {
  readonly tensor: string;
  readonly problem: FormatError | undefined;
  readonly archive: ArchiveContent | undefined;
  readonly tensorsIn: (file: Storage) => ForeignTensor[];
}

export function readPiece(
  { begin, byteLength, name, tensor, dtype, box }: StoredPiece,
  file: ByteReader,
  { reading, layout }: PieceOptions,
  memory: MemoryBudget,
  context: ErrorContext,
): ReadPiece {
  const inTensor = { ...context, tensor };
  const window = {
    byteLength,
    read: (from: number, to: number) => file.read(begin + from, begin + to),
  };
  const described = readZipCheckpoint(window, { ...reading, begin }, inTensor);
  const { value, archive } = described;
  if (!isTensor(value)) throw invalid(`the piece [${formatBox(box)}] is not a tensor`, inTensor);
  if (!(value instanceof UnsupportedTensor)) {
    const found = `${value.dtype.name} [${[value.shape].flat().join(', ')}]`;
    const expected = `${dtype} [${box.shape.join(', ')}]`;
    if (found !== expected) {
      throw invalid(`expected a piece of ${expected}, found ${found}`, inTensor);
    }
  }
  const named = new Map([[tensor, value]]);
  const { problems, tensorsIn } = checkTorchTensors(named, described, layout, memory, context);
  return {
    tensor,
    archive,
    problem: problems[0],
    tensorsIn: (storage) => tensorsIn(storage).map((read) => ({ ...read, name })),
  };
}
