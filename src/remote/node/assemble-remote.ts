/** Assembles remote pieces into a checkpoint of whole tensors. */

import type { SafetensorsError } from '../../errors/errors.js';
import { assembled, type PiecesOfTensor } from '../../foreign/distributed/pieces/assemble.js';
import { describeParts, type PartsInfo } from '../../foreign/distributed/pieces/description.js';
import type { RemotePieces } from '../../foreign/distributed/pieces/fetch-assembled.js';
import type { SliceIndex } from '../../tensor/slice.js';
import { runAsync } from '../../work/work.js';
import { RemoteCheckpoint } from '../checkpoint.js';
import type { FetchLimits } from '../fetch-tensors.js';
import type { RemoteFolder, RemoteSource } from '../remote-file.js';
import { type PiecesFile, RemoteShards } from '../remote-shards.js';

/** Files at a time while a checkpoint is opened. */
export const FILES_AT_ONCE = 16;

/** A distributed checkpoint: `file` is `.metadata`, or the index that files of ranks don't have. */
export interface DistributedSource extends RemoteSource {
  readonly folder: RemoteFolder;
}

/** The pieces of a checkpoint. */
export interface RemoteParts {
  /** At least one. */
  readonly files: readonly PiecesFile[];
  readonly tensors: readonly PiecesOfTensor[];
  /** Errors for tensors that cannot be read. */
  readonly problems: readonly SafetensorsError[];
  readonly info: PartsInfo;
}

/** Returns the checkpoint of whole tensors, which owns the source. */
export async function assembleRemote(
  source: RemoteSource,
  { files, tensors, problems, info }: RemoteParts,
  limits: FetchLimits,
  signal: AbortSignal,
): Promise<RemoteCheckpoint> {
  const described = files.map(({ name, contents }) => {
    return { name, byteLength: contents.dataByteLength, contents };
  });
  const description = describeParts(described, tensors, info);
  const extra = () => description;
  const shards = await RemoteShards.ofPieces(source, files, { format: 'dcp', extra }, signal);
  const base = RemoteCheckpoint.of(shards, limits);
  const fileOf = (piece: string): string => {
    return files.find(({ contents }) => contents.find(piece) !== -1)?.name ?? '';
  };
  const { path } = base;
  const { maxBufferByteLength } = limits;
  const remote = {
    ...{ path, maxBufferByteLength, fileOf },
    getSlice: (...[name, index, options]: Parameters<RemotePieces['getSlice']>) =>
      base.getSlice(name, ...(index as readonly SliceIndex[]), options),
  };
  const parts = { tensors, source: { remote }, problems, path };
  return await runAsync(assembled(base, parts), signal);
}
