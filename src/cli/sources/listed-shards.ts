/** The files of a safetensors checkpoint, one by one, by what the library says of each. */

import { Buffer } from 'node:buffer';
import { dirname, join } from 'node:path';
import { PREFIX_BYTE_LENGTH } from '../../format/header.js';
import { type Checkpoint, safeOpen, type TensorEntry, VerificationError } from '../../index.js';
import type { RemoteCheckpoint } from '../../remote.js';

/** A file without the bytes of its tensors. */
export interface ListedShard {
  /** As the index or the source names it. */
  readonly name: string;
  /** Null for a file that is somewhere else. */
  readonly path: string | null;
  /** Its JSON as it stands in the file, with the spaces behind it. */
  readonly headerText: string;
  /** Where the bytes of the tensors begin. */
  readonly dataStart: number;
  /** Null when there is none. */
  readonly metadata: ReadonlyMap<string, string> | null;
  /** In the order of their bytes. */
  readonly tensors: readonly TensorEntry[];
}

/** Files of this machine: all that each of them has, whatever the index says. */
export async function listLocalShards(
  { path: model, shards }: Pick<Checkpoint, 'path' | 'shards'>,
  signal: AbortSignal,
): Promise<ListedShard[]> {
  const files: ListedShard[] = [];
  for (const name of shards) {
    const path = join(dirname(model), name);
    const file = safeOpen(path, { storage: 'read' });
    try {
      const { headerText, dataStart, metadata } = file;
      const tensors = await file.tensors({ signal });
      files.push({ name, path, headerText, dataStart, metadata, tensors });
    } finally {
      file.close();
    }
  }
  return files;
}

/**
 * Files that are somewhere else: what their index names of them.
 *
 * @throws FormatError `SAFETENSORS_INDEX_MISMATCH` when it names a tensor that is not there
 */
export async function listRemoteShards(
  checkpoint: RemoteCheckpoint,
  signal: AbortSignal,
): Promise<ListedShard[]> {
  const headers = await checkpoint.headerTexts({ signal });
  const tensors = new Map(Array.from(headers.keys(), (name) => [name, [] as TensorEntry[]]));
  for (const entry of await checkpoint.tensors({ signal })) tensors.get(entry.file)?.push(entry);
  return Array.from(headers, ([name, headerText]) => ({
    ...{ name, path: null, headerText, tensors: tensors.get(name) ?? [] },
    dataStart: PREFIX_BYTE_LENGTH + Buffer.byteLength(headerText),
    metadata: new Map(Object.entries(JSON.parse(headerText).__metadata__ ?? {})),
  }));
}

/**
 * The same, when the index names all that they have, each in its file.
 *
 * @throws VerificationError `SAFETENSORS_INDEX_MISMATCH`
 */
export async function listWholeRemoteShards(
  checkpoint: RemoteCheckpoint,
  signal: AbortSignal,
): Promise<ListedShard[]> {
  try {
    await checkpoint.verify({ signal });
  } catch (error) {
    // A wrong total_size changes no file.
    const isOfFile = !(error instanceof VerificationError);
    if (isOfFile || error.problems.some(({ tensor }) => tensor !== null)) throw error;
  }
  return await listRemoteShards(checkpoint, signal);
}

/** Length of a whole file: the format allows no gaps. */
export function shardByteLength({ dataStart, tensors }: ListedShard): number {
  return tensors.reduce((sum, { byteLength }) => sum + byteLength, dataStart);
}
