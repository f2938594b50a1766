/** The tensors and files of a model of any format, for `inspect`. */

import { statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { AnyCheckpoint, CheckpointSummary, PlainValue, TensorEntry } from '../../index.js';

/** A tensor, without its bytes. */
export interface ListedTensor extends Pick<TensorEntry, 'name' | 'dtype' | 'shape' | 'byteLength'> {
  /** Position in its file of the first byte that holds it, or that it is converted from. */
  readonly offset: number;
  /** Name of its file. */
  readonly file: string;
}

/** A file of the source. */
export interface ListedFile {
  readonly name: string;
  /** Length of the whole file. */
  readonly byteLength: number;
  readonly tensors: number;
  readonly parameters: number;
}

/** Everything that `inspect` shows of the headers. */
interface Listing extends CheckpointSummary {
  readonly files: readonly ListedFile[];
  /** Shard by shard, in the order of their bytes. */
  readonly listed: readonly ListedTensor[];
}

/** Lists a model; reads only headers. */
export async function listModel(checkpoint: AnyCheckpoint, signal: AbortSignal): Promise<Listing> {
  const headers = await checkpoint.headers({ signal });
  // Of a remote index only its own tensors; rejects when a file lacks one of them.
  const isWhole = checkpoint.local && checkpoint.format === 'safetensors';
  const tensors = isWhole
    ? headers.flatMap((header) => header.tensors)
    : await checkpoint.tensors({ signal });
  const summary = await checkpoint.summary({ signal });
  const starts = new Map(headers.map(({ file, dataStart }) => [file, dataStart]));
  const files =
    checkpoint.format === 'dcp'
      ? filesOfRanks(await checkpoint.extra())
      : Array.from(summary.shards, ([name, { tensors, parameters, byteLength }]) => {
          const start = starts.get(name);
          const whole = start === undefined ? lengthOf(checkpoint, name) : start + byteLength;
          return { name, byteLength: whole, tensors, parameters };
        });
  const listed = tensors.map(({ name, dtype, shape, byteLength, dataOffsets, file }) => {
    const offset = (starts.get(file) ?? 0) + dataOffsets[0];
    return { name, dtype, shape, byteLength, offset, file };
  });
  return { ...summary, files, listed };
}

/** The files of a distributed checkpoint, with their pieces. */
function filesOfRanks(extra: PlainValue): ListedFile[] {
  const info = extra as ReadonlyMap<string, PlainValue>;
  const files = info.get('files') as ReadonlyMap<string, ReadonlyMap<string, number>>;
  return Array.from(files, ([name, counts]) => ({
    name,
    byteLength: counts.get('byteLength') ?? 0,
    tensors: counts.get('pieces') ?? 0,
    parameters: counts.get('parameters') ?? 0,
  }));
}

/** The length of a file of another format, whose tensors are not all of it. */
function lengthOf({ path }: AnyCheckpoint, name: string): number {
  return statSync(join(dirname(path as string), name)).size;
}
