/** The `.distcp` files of a distributed checkpoint: every piece is a file of `torch.save`, one after the other. */

import { join } from 'node:path';
import { type ErrorContext, FormatError, type SafetensorsError } from '../../errors/errors.js';
import type { StorageOptions } from '../../platform/storage/open.js';
import type { Storage } from '../../tensor/storage/storage.js';
import type { ArchiveContent } from '../checksums.js';
import type { ForeignFile } from '../foreign-checkpoint.js';
import { ForeignShard } from '../foreign-shard.js';
import { openForeign } from '../open-file.js';
import { MemoryBudget } from '../pickle/memory-budget.js';
import type { ForeignTensor } from '../tensors/foreign-tensor.js';
import type { LayoutLimits } from '../tensors/tensor-layout.js';
import { isTensor, UnsupportedTensor } from '../torch/state-dict/values.js';
import { checkTorchTensors } from '../torch/tensors.js';
import { type ReadOptions, readZipCheckpoint } from '../torch/zip-checkpoint.js';
import type { ByteReader } from '../zip/archive.js';
import { invalid, type PiecesOfTensor } from './assemble.js';
import type { DistributedMetadata, StoredItem } from './metadata-file.js';
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

/**
 * Opens all files, and reads the description of every piece.
 *
 * @param open called with each file as it is opened, to be closed after an error
 */
export function openDistcp(
  folder: string,
  metadata: DistributedMetadata,
  options: DistcpOptions,
  open: (storage: Storage) => void,
): DistcpParts {
  const byFile = new Map<string, StoredPiece[]>();
  const pieces = new Map<string, Map<string, readonly number[]>>();
  for (const { name: tensor, dtype, chunks } of metadata.tensors) {
    const own = new Map<string, readonly number[]>();
    for (const box of chunks) {
      const item = metadata.itemOf(tensor, box.offsets);
      const name = chunks.length === 1 ? tensor : `${tensor}[${formatBox(box)}]`;
      if (own.has(name)) continue;
      own.set(name, box.offsets);
      const others = byFile.get(item.file) ?? [];
      others.push({ ...item, name, tensor, dtype, box });
      byFile.set(item.file, others);
    }
    pieces.set(tensor, own);
  }
  const problems = new Map<string, SafetensorsError>();
  const files = Array.from(byFile, ([file, stored]): ForeignFile => {
    const path = join(folder, file);
    const shard = openForeign(path, options.storage, (_, reader, context) => {
      const read = stored.map((piece) => readPiece(piece, reader, options, context));
      for (const { tensor, problem } of read) if (problem) problems.set(tensor, problem);
      const entries = read.flatMap(({ archive }) => archive?.entries ?? []);
      return (storage) => {
        open(storage);
        const found = read.flatMap(({ tensorsIn }) => tensorsIn(storage));
        return new ForeignShard(storage, found, { entries, limits: options.reading.archive });
      };
    });
    return { path, shard };
  });
  const tensors = metadata.tensors
    .filter(({ name }) => !problems.has(name))
    .map(({ name, shape }): PiecesOfTensor => {
      return { name, shape, pieces: pieces.get(name) as Map<string, readonly number[]> };
    });
  return { files, tensors, problems: [...problems.values()] };
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
  context: ErrorContext,
): ReadPiece {
  const inTensor = { ...context, tensor };
  if (begin + byteLength > file.byteLength) {
    const message = `expected the piece [${formatBox(box)}] at bytes ${begin} to ${begin + byteLength}, found the end of the file at ${file.byteLength}`;
    throw new FormatError('SAFETENSORS_INCOMPLETE_FILE', message, inTensor);
  }
  const window = {
    byteLength,
    read: (from: number, to: number) => file.read(begin + from, begin + to),
  };
  const described = readZipCheckpoint(window, { ...reading, begin }, inTensor);
  const { value, archive } = described;
  if (!isTensor(value)) throw invalid(`the piece [${formatBox(box)}] is no tensor`, inTensor);
  if (!(value instanceof UnsupportedTensor)) {
    const [found, expected] = [
      `${value.dtype.name} [${[value.shape].flat().join(', ')}]`,
      `${dtype} [${box.shape.join(', ')}]`,
    ];
    if (found !== expected) {
      throw invalid(`expected a piece of ${expected}, found ${found}`, inTensor);
    }
  }
  const memory = new MemoryBudget(reading.pickle, context);
  const { problems, tensorsIn } = checkTorchTensors(
    new Map([[tensor, value]]),
    described,
    layout,
    memory,
    context,
  );
  return {
    tensor,
    archive,
    problem: problems[0],
    tensorsIn: (storage) => tensorsIn(storage).map((read) => ({ ...read, name })),
  };
}
