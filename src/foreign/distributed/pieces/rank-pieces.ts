/**
 * The pieces in the files that the ranks of a job save with torch's `HuggingFaceStorageWriter`: safetensors whose
 * metadata has the offsets of their tensors (torch 2.13, `torch/distributed/checkpoint/_hf_utils.py`). Nothing has the
 * whole shapes, or the number of ranks.
 */

import type { ErrorContext } from '../../../errors/errors.js';
import { SHARDING_INFO, savedOffsets } from '../../../file/shards/incomplete-models.js';
import type { FileMetadata } from '../../../file/shards/metadata.js';
import type { Header } from '../../../header/header.js';
import type { PlacedTensor } from '../../tensors/placed-contents.js';
import type { PiecesOfTensor } from './assemble.js';
import { invalid } from './distributed-error.js';
import { PieceNames } from './piece-names.js';
import { formatBox } from './tiling.js';

/** Metadata that describes pieces, not the whole tensors. */
const OF_PIECES: readonly string[] = [SHARDING_INFO, 'DCP_VERSION'];

/** A piece of a file. */
interface RankPiece {
  /** The name of the whole tensor. */
  readonly tensor: string;
  /** The piece among those of the tensor in all files. */
  readonly label: string;
  readonly offsets: readonly number[];
  readonly isEmpty: boolean;
}

/** The header of a file, and its pieces. */
export interface RankHeader {
  readonly header: Header;
  /** In the order of the header. */
  readonly pieces: readonly RankPiece[];
}

/** The pieces of a file under names that no other file has. */
export interface RankContents {
  readonly pieces: readonly PlacedTensor[];
  readonly metadata: FileMetadata;
}

/** The pieces of all files, and those of each tensor. */
export interface NamedPieces<File> {
  readonly files: readonly (RankContents & { readonly file: File })[];
  readonly tensors: readonly PiecesOfTensor[];
}

/** Names the pieces of all files. The only piece of a tensor has its name, which errors then have. */
export function namePieces<File extends RankHeader>(parts: readonly File[]): NamedPieces<File> {
  const counts = new Map<string, number>();
  for (const { tensor, isEmpty } of parts.flatMap(({ pieces }) => pieces)) {
    if (!isEmpty) counts.set(tensor, (counts.get(tensor) ?? 0) + 1);
  }
  const names = new PieceNames(parts.flatMap(({ pieces }) => pieces.map(({ tensor }) => tensor)));
  const tensors = new Map<string, Map<string, readonly number[]>>();
  const files = parts.map((file) => {
    const pieces = file.pieces.map(({ tensor, label, offsets, isEmpty }, entry) => {
      const isOnly = !isEmpty && counts.get(tensor) === 1;
      const name = isOnly ? tensor : names.of(tensor, label);
      const known = tensors.get(tensor) ?? new Map<string, readonly number[]>();
      tensors.set(tensor, known.set(name, offsets));
      return placedPiece(file.header, entry, name);
    });
    const metadata = new Map(file.header.metadata);
    for (const key of OF_PIECES) metadata.delete(key);
    return { file, pieces, metadata };
  });
  return {
    files,
    tensors: Array.from(tensors, ([name, pieces]) => ({ name, shape: undefined, pieces })),
  };
}

function placedPiece(header: Header, entry: number, name: string): PlacedTensor {
  const [begin, end] = [header.begin(entry), header.end(entry)];
  const [dtype, shape] = [header.dtype(entry), header.shape(entry)];
  return { name, dtype, shape, begin: header.dataStart + begin, byteLength: end - begin };
}

/** The pieces of a file. Throws FormatError `SAFETENSORS_INVALID_DISTRIBUTED` for bad offsets. */
export function piecesOf(header: Header, file: string, context: ErrorContext): RankPiece[] {
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
