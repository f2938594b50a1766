/** A checkpoint of open files of another format. */

import { basename, extname } from 'node:path';
import { Checkpoint, type CheckpointInfo } from '../file/checkpoint/checkpoint.js';
import { singleFile } from '../file/checkpoint/find-files.js';
import { LazyShards } from '../file/checkpoint/lazy-shards.js';
import { impliedIndex } from '../file/shards/implied-index.js';
import { runSync } from '../work/work.js';
import type { ForeignShard } from './foreign-shard.js';

/** An open file of a checkpoint. */
export interface ForeignFile {
  readonly path: string;
  readonly shard: ForeignShard;
}

/**
 * Returns the checkpoint of all files, in order; `path` is its own, that of the first file by default. Takes ownership
 * of them, and closes those without tensors.
 *
 * @throws FormatError `SAFETENSORS_INDEX_MISMATCH` for a tensor in two files; then all of them stay open
 */
export function foreignCheckpoint(
  files: readonly ForeignFile[],
  info: CheckpointInfo,
  path: string = (files[0] as ForeignFile).path,
): Checkpoint {
  const [first] = files as [ForeignFile];
  if (files.length === 1) {
    const only = { ...singleFile(first.path), path };
    return Checkpoint.of(LazyShards.ofOpen(only, [[0, first.shard]]), info);
  }
  const named = files.map(({ shard, path: at }) => {
    return { shard, name: basename(at), path: at, header: shard.contents };
  });
  const metadata = first.shard.contents.metadata ?? new Map();
  const shardExtension = extname(first.path);
  const index = runSync(impliedIndex(named, path, { metadata, shardExtension }));
  const listed = named.filter(({ name }) => index.shards.includes(name));
  for (const { shard, name } of named) if (!index.shards.includes(name)) shard.close();
  const shards = listed.map(({ name, path: at }) => ({ name, path: at }));
  const opened = listed.map(({ shard }, i): [number, ForeignShard] => [i, shard]);
  return Checkpoint.of(LazyShards.ofOpen({ path, index, shards, ignoredFiles: [] }, opened), info);
}
