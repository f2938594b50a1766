/** Opens the `.distcp` files of a distributed checkpoint. */

import { join } from 'node:path';
import { FormatError, type SafetensorsError } from '../../errors/errors.js';
import type { StorageOptions } from '../../platform/storage/open.js';
import type { Storage } from '../../tensor/storage/storage.js';
import { forEach } from '../../work/items.js';
import type { Work } from '../../work/work.js';
import type { ForeignFile } from '../foreign-checkpoint.js';
import { ForeignShard } from '../foreign-shard.js';
import { openForeign, storageReader } from '../open-file.js';
import { MemoryBudget } from '../pickle/memory-budget.js';
import { spendTensors } from '../torch/tensors.js';
import {
  type PieceOptions,
  placedPieces,
  type ReadPiece,
  readPiece,
  requirePlaces,
} from './distcp-pieces.js';
import type { DistributedMetadata } from './metadata-file.js';
import type { PiecesOfTensor } from './pieces/assemble.js';

/** Options for opening the files. */
export interface DistcpOptions extends PieceOptions {
  readonly storage: StorageOptions;
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
    requirePlaces(pieces, storage.byteLength, context);
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
