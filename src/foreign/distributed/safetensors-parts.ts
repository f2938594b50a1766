/**
 * The files that the ranks of a job save with torch's `HuggingFaceStorageWriter`: safetensors whose tensors are pieces,
 * with their offsets in the metadata (torch 2.13, `torch/distributed/checkpoint/_hf_utils.py`). Nothing has the whole
 * shapes, or the number of ranks.
 */

import type { ErrorContext } from '../../errors/errors.js';
import { SHARDING_INFO, savedOffsets } from '../../file/shards/incomplete-models.js';
import {
  type Header,
  PREFIX_BYTE_LENGTH,
  parseHeader,
  readHeaderLength,
} from '../../header/header.js';
import type { StorageOptions } from '../../platform/storage/open.js';
import type { Storage } from '../../tensor/storage/storage.js';
import type { ForeignFile } from '../foreign-checkpoint.js';
import { ForeignShard } from '../foreign-shard.js';
import { openForeign } from '../open-file.js';
import type { ForeignTensor } from '../tensors/foreign-tensor.js';
import { invalid, type PiecesOfTensor } from './assemble.js';
import { PieceNames } from './piece-names.js';
import { formatBox } from './tiling.js';

/** Metadata that describes pieces, not the whole tensors. */
const OF_PIECES: readonly string[] = [SHARDING_INFO, 'DCP_VERSION'];

/** Options of files in safetensors. */
export interface PartOptions extends StorageOptions {
  readonly maxHeaderByteLength?: number | undefined;
}

/** An open file, and its pieces. */
export interface OpenedPart {
  readonly path: string;
  readonly storage: Storage;
  readonly header: Header;
  readonly pieces: readonly PartPiece[];
}

/** A piece of a file. */
interface PartPiece {
  /** The name of the whole tensor. */
  readonly tensor: string;
  /** The piece among those of the tensor in all files. */
  readonly label: string;
  readonly offsets: readonly number[];
  readonly isEmpty: boolean;
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

/** Takes ownership of the files. The only piece of a tensor has its name, which errors then have. */
export function partFiles(parts: readonly OpenedPart[]): PartFiles {
  const counts = new Map<string, number>();
  for (const { tensor, isEmpty } of parts.flatMap(({ pieces }) => pieces)) {
    if (!isEmpty) counts.set(tensor, (counts.get(tensor) ?? 0) + 1);
  }
  const names = new PieceNames(parts.flatMap(({ pieces }) => pieces.map(({ tensor }) => tensor)));
  const tensors = new Map<string, Map<string, readonly number[]>>();
  const files = parts.map(({ path, storage, header, pieces }): ForeignFile => {
    const named = pieces.map(({ tensor, label, offsets, isEmpty }, entry): ForeignTensor => {
      const isOnly = !isEmpty && counts.get(tensor) === 1;
      const name = isOnly ? tensor : names.of(tensor, label);
      const known = tensors.get(tensor) ?? new Map<string, readonly number[]>();
      tensors.set(tensor, known.set(name, offsets));
      return pieceTensor(header, entry, name, storage);
    });
    const metadata = new Map(header.metadata);
    for (const key of OF_PIECES) metadata.delete(key);
    return { path, shard: new ForeignShard(storage, named, undefined, metadata) };
  });
  return {
    files,
    tensors: Array.from(tensors, ([name, pieces]) => ({ name, shape: undefined, pieces })),
  };
}

/** The pieces of a file, in the order of its header. */
function piecesOf(header: Header, file: string, context: ErrorContext): PartPiece[] {
  const json = header.metadata?.get(SHARDING_INFO);
  const saved = json === undefined ? null : savedOffsets(json);
  if (saved === null) {
    const fault = json === undefined ? 'is missing' : 'is malformed';
    throw invalid(`${SHARDING_INFO} ${fault} in the metadata`, context);
  }
  return Array.from({ length: header.size }, (_, entry) => {
    const tensor = header.name(entry);
    const offsets = saved.get(tensor);
    if (offsets === undefined) {
      throw invalid(`${SHARDING_INFO} has no offsets of the tensor`, { ...context, tensor });
    }
    const shape = header.shape(entry);
    const ranges = offsets.length === shape.length ? formatBox({ offsets, shape }) : `${offsets}`;
    const label = `[${ranges}] in ${file}`;
    return { tensor, label, offsets, isEmpty: shape.includes(0) };
  });
}

function pieceTensor(header: Header, entry: number, name: string, storage: Storage): ForeignTensor {
  const [begin, end] = [header.begin(entry), header.end(entry)];
  const data = { storage, begin: header.dataStart + begin, byteLength: end - begin };
  const [dtype, shape] = [header.dtype(entry), header.shape(entry)];
  return {
    name,
    dtype,
    shape,
    storage: data,
    storageByteLength: data.byteLength,
    byteOffset: 0,
    data,
  };
}
