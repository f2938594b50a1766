/** The files of a source that are hashed: reads local files, fetches remote ones. */

import { dirname, join } from 'node:path';
import {
  type FileHashes,
  type HashedLayout,
  type HashOptions,
  hashFile,
  hashPieces,
} from '../../file/verification/hash-file.js';
import { hashedLayout } from '../../file/verification/legacy-place.js';
import { type Checkpoint, type ShardHeader, VerificationError } from '../../index.js';
import type { RemoteCheckpoint } from '../../remote.js';
import { remotePieces } from './remote-pieces.js';

/** A safetensors file that can be hashed. */
export interface HashableFile extends Pick<ShardHeader, 'file' | 'metadata'> {
  /** Null for a remote file. */
  readonly path: string | null;
  /** Length of the whole file. */
  readonly byteLength: number;
  /** Hashes it; with `isEach` every tensor, too. */
  hash(isEach: boolean, options: HashOptions): Promise<FileHashes>;
}

function hashable(
  header: ShardHeader,
  path: string | null,
  hash: (layout: HashedLayout, options: HashOptions) => Promise<FileHashes>,
): HashableFile {
  const { file, metadata, dataStart, tensors } = header;
  // The format allows no gaps.
  const byteLength = tensors.reduce((sum, one) => sum + one.byteLength, dataStart);
  return {
    ...{ file, metadata, path, byteLength },
    hash: (isEach, options) => hash(hashedLayout(header, isEach ? tensors : []), options),
  };
}

/** The files of a local checkpoint. */
export async function localFiles(
  checkpoint: Checkpoint,
  signal: AbortSignal,
): Promise<HashableFile[]> {
  const folder = dirname(checkpoint.path);
  return (await checkpoint.headers({ signal })).map((header) => {
    const path = join(folder, header.file);
    return hashable(header, path, (layout, options) => hashFile(path, layout, options));
  });
}

/**
 * The files of a remote checkpoint. Hashing fetches their bytes by the names of their tensors.
 *
 * @throws VerificationError `SAFETENSORS_INDEX_MISMATCH` for tensors that the index does not name
 */
export async function remoteFiles(
  checkpoint: RemoteCheckpoint,
  signal: AbortSignal,
): Promise<HashableFile[]> {
  try {
    await checkpoint.verify({ signal });
  } catch (error) {
    if (!(error instanceof VerificationError)) throw error;
    // A wrong total_size changes no file.
    if (error.problems.some(({ tensor }) => tensor !== null)) throw error;
  }
  return (await checkpoint.headers({ signal })).map((header) =>
    hashable(header, null, (layout, options) =>
      hashPieces(remotePieces(checkpoint, header, options.signal), layout, options),
    ),
  );
}
