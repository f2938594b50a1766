/** Opens the safetensors files of all ranks; `pieces/rank-pieces` describes them. */

import { PREFIX_BYTE_LENGTH, parseHeader, readHeaderLength } from '../../header/header.js';
import type { StorageOptions } from '../../platform/storage/open.js';
import type { Storage } from '../../tensor/storage/storage.js';
import type { ForeignFile } from '../foreign-checkpoint.js';
import { ForeignShard } from '../foreign-shard.js';
import { openForeign } from '../open-file.js';
import type { ForeignTensor } from '../tensors/foreign-tensor.js';
import type { PlacedTensor } from '../tensors/placed-contents.js';
import type { PiecesOfTensor } from './pieces/assemble.js';
import { namePieces, piecesOf, type RankHeader } from './pieces/rank-pieces.js';

/** Options of files in safetensors. */
export interface PartOptions extends StorageOptions {
  readonly maxHeaderByteLength?: number | undefined;
}

/** An open file, and its pieces. */
export interface OpenedPart extends RankHeader {
  readonly path: string;
  readonly storage: Storage;
}

/** Opens one file. Throws FormatError as `safeOpen`; `SAFETENSORS_INVALID_DISTRIBUTED` for bad offsets. */
export function openPart(path: string, file: string, options: PartOptions): OpenedPart {
  const { maxHeaderByteLength, ...storageOptions } = options;
  return openForeign(path, storageOptions, (start, { byteLength, read }, context) => {
    const limits = { maxHeaderByteLength, path };
    const length = readHeaderLength(start, byteLength, limits);
    const json = read(PREFIX_BYTE_LENGTH, PREFIX_BYTE_LENGTH + length);
    const header = parseHeader(json, byteLength, limits);
    const pieces = piecesOf(header, file, context);
    return (storage) => ({ path, storage, header, pieces });
  });
}

/** The files of a checkpoint, and the pieces of each tensor in all of them. */
export interface PartFiles {
  readonly files: readonly ForeignFile[];
  readonly tensors: readonly PiecesOfTensor[];
}

/** Takes ownership of the files. */
export function partFiles(parts: readonly OpenedPart[]): PartFiles {
  const { files, tensors } = namePieces(parts);
  const opened = files.map(({ file: { path, storage }, pieces, metadata }): ForeignFile => {
    const named = pieces.map((piece) => pieceTensor(piece, storage));
    return { path, shard: new ForeignShard(storage, named, undefined, metadata) };
  });
  return { files: opened, tensors };
}

function pieceTensor(
  { name, dtype, shape, begin, byteLength }: PlacedTensor,
  storage: Storage,
): ForeignTensor {
  const data = { storage, begin, byteLength };
  return { name, dtype, shape, storage: data, storageByteLength: byteLength, byteOffset: 0, data };
}
