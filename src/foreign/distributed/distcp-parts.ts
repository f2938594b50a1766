/** The `.distcp` files of a distributed checkpoint: each piece is a complete `torch.save` archive within the file. */

import { join } from 'node:path';
import { type ErrorContext, FormatError, type SafetensorsError } from '../../errors/errors.js';
import type { StorageOptions } from '../../platform/storage/open.js';
import type { Storage } from '../../tensor/storage/storage.js';
import { forEach } from '../../work/items.js';
import type { Work } from '../../work/work.js';
import type { ArchiveContent } from '../checksums.js';
import type { ForeignFile } from '../foreign-checkpoint.js';
import { ForeignShard } from '../foreign-shard.js';
import { openForeign, storageReader } from '../open-file.js';
import { MemoryBudget } from '../pickle/memory-budget.js';
import type { ForeignTensor } from '../tensors/foreign-tensor.js';
import type { LayoutLimits } from '../tensors/tensor-layout.js';
import { isTensor, UnsupportedTensor } from '../torch/state-dict/values.js';
import { checkTorchTensors, spendTensors } from '../torch/tensors.js';
import { type ReadOptions, readZipCheckpoint } from '../torch/zip-checkpoint.js';
import type { ByteReader } from '../zip/archive.js';
import { invalid, type PiecesOfTensor } from './assemble.js';
import type { DistributedMetadata, ListedTensor, StoredItem } from './metadata-file.js';
import { PieceNames } from './piece-names.js';
import { type Box, formatBox } from './tiling.js';

/** A piece and its place. */
interface StoredPiece extends StoredItem {
  readonly name: string;
  readonly tensor: string;
  readonly dtype: string;
  readonly box: Box;
}

/** Options for reading pieces. */
export interface DistcpOptions {
  readonly storage: StorageOptions;
  readonly reading: ReadOptions;
  readonly layout: LayoutLimits;
}

/** The open files of a checkpoint, and its tensors. */
export interface DistcpParts {
  readonly files: readonly ForeignFile[];
  readonly tensors: readonly PiecesOfTensor[];
  /** Errors for tensors with pieces that cannot be read. */
  readonly problems: readonly SafetensorsError[];
}

/** torch's dtype of two values in a byte: an element is two of safetensors. */
const PACKED_DTYPE = 'float4_e2m1fn_x2';

/**
 * Opens all files, and reads the description of every piece.
 *
 * @param onOpen called with the storage of each file, which the caller closes after an error
 */
export function* openDistcp(
  folder: string,
  metadata: DistributedMetadata,
  options: DistcpOptions,
  onOpen: (storage: Storage) => void,
): Work<DistcpParts> {
  const { byFile, tensors } = placedPieces(metadata);
  const problems = new Map<string, SafetensorsError>();
  const files: ForeignFile[] = [];
  for (const [file, pieces] of byFile) {
    const path = join(folder, file);
    const storage = openForeign(path, options.storage, (_, { byteLength }, context) => {
      if (byteLength > 0) return (opened) => opened;
      const message = 'incomplete file: expected the pieces that .metadata lists, found no bytes';
      throw new FormatError('SAFETENSORS_INCOMPLETE_FILE', message, context);
    });
    onOpen(storage);
    const context = { path };
    requireDisjoint(pieces, context);
    const memory = new MemoryBudget(options.reading.pickle, context);
    spendTensors(pieces.length, memory);
    const reader = storageReader(storage);
    const read: ReadPiece[] = [];
    yield* forEach(pieces, function* (piece) {
      yield;
      read.push(readPiece(piece, reader, options, memory, context));
    });
    for (const { tensor, problem } of read) if (problem) problems.set(tensor, problem);
    const entries = read.flatMap(({ archive }) => archive?.entries ?? []);
    const found = read.flatMap(({ tensorsIn }) => tensorsIn(storage));
    const archive = { entries, limits: options.reading.archive };
    files.push({ path, shard: new ForeignShard(storage, found, archive) });
  }
  return {
    files,
    tensors: tensors.filter(({ name }) => !problems.has(name)),
    problems: [...problems.values()],
  };
}

/** The pieces of all files, and the names of those of each tensor. */
function placedPieces(metadata: DistributedMetadata): {
  readonly byFile: ReadonlyMap<string, readonly StoredPiece[]>;
  readonly tensors: readonly PiecesOfTensor[];
} {
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

/** Throws for pieces that share bytes: reading them all would take longer than the file is. */
function requireDisjoint(pieces: readonly StoredPiece[], context: ErrorContext): void {
  const sorted = pieces.toSorted((a, b) => a.begin - b.begin);
  let end = 0;
  for (const { begin, byteLength, tensor, box } of sorted) {
    if (begin < end) {
      const message = `the piece [${formatBox(box)}] at byte ${begin} overlaps another, which ends at byte ${end}`;
      throw invalid(message, { ...context, tensor });
    }
    end = begin + byteLength;
  }
}

/** A piece whose description was read. */
interface ReadPiece {
  readonly tensor: string;
  readonly problem: FormatError | undefined;
  readonly archive: ArchiveContent | undefined;
  readonly tensorsIn: (file: Storage) => ForeignTensor[];
}

function readPiece(
  { begin, byteLength, name, tensor, dtype, box }: StoredPiece,
  file: ByteReader,
  { reading, layout }: DistcpOptions,
  memory: MemoryBudget,
  context: ErrorContext,
): ReadPiece {
  const inTensor = { ...context, tensor };
  if (begin + byteLength > file.byteLength) {
    const place = `bytes ${begin} to ${begin + byteLength}`;
    const message = `the piece [${formatBox(box)}] at ${place} is beyond the end of the file, ${file.byteLength}`;
    throw new FormatError('SAFETENSORS_INCOMPLETE_FILE', message, inTensor);
  }
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
