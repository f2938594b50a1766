/** The files of a source, to be hashed: those of this machine are read, others fetched. */

import type { Checkpoint } from '../../index.js';
import type { RemoteCheckpoint } from '../../remote.js';
import {
  type FileHashes,
  type HashedLayout,
  type HashOptions,
  hashFile,
  hashPieces,
} from '../../verification/hash-file.js';
import { hashedLayout } from '../../verification/legacy-place.js';
import { type ListedShard, listLocalShards, listWholeRemoteShards } from './listed-shards.js';
import { remotePieces } from './remote-pieces.js';

/** A file of safetensors that can be hashed. */
export interface HashableFile extends ListedShard {
  /** Hashes it; with `isEach` every tensor, too. */
  hash(isEach: boolean, options: HashOptions): Promise<FileHashes>;
}

function layoutOf(file: ListedShard, isEach: boolean): HashedLayout {
  const { tensors, dataStart } = file;
  const ranges = tensors.map(({ name, dataOffsets: [begin, end] }) => {
    return { name, begin: dataStart + begin, end: dataStart + end };
  });
  return hashedLayout(file, isEach ? ranges : []);
}

/** Files of this machine. */
export async function localFiles(
  checkpoint: Pick<Checkpoint, 'path' | 'shards'>,
  signal: AbortSignal,
): Promise<HashableFile[]> {
  const files = await listLocalShards(checkpoint, signal);
  return files.map((file) => ({
    ...file,
    hash: (isEach, options) => hashFile(file.path as string, layoutOf(file, isEach), options),
  }));
}

/**
 * Files that are somewhere else. Their bytes are fetched by the names of their tensors.
 *
 * @throws VerificationError `SAFETENSORS_INDEX_MISMATCH` for tensors that the index does not name
 */
export async function remoteFiles(
  checkpoint: RemoteCheckpoint,
  signal: AbortSignal,
): Promise<HashableFile[]> {
  const files = await listWholeRemoteShards(checkpoint, signal);
  return files.map((file) => ({
    ...file,
    hash: (isEach, options) => {
      const pieces = remotePieces(checkpoint, file, options.signal);
      return hashPieces(pieces, layoutOf(file, isEach), options);
    },
  }));
}
