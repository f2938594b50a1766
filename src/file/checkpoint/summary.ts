/** Summarizes a checkpoint by the headers of its shards and the `config.json` beside them. */

import { runSync } from '../../work/work.js';
import { type CheckpointSummary, countParameters } from '../hub/parameter-count.js';
import type { LazyShards } from './lazy-shards.js';
import { type Shard, verifiedContents } from './shard.js';
import { readJsonSibling } from './sibling-files.js';

/** Opens every shard and counts its tensors. */
export function summarize(shards: LazyShards<Shard>): CheckpointSummary {
  shards.requireOpen();
  const { index, shards: files } = shards.files;
  const counted = Array.from(shards, (file, shard) => ({
    name: (files[shard] as { name: string }).name,
    header: verifiedContents(file),
  }));
  return countParameters(counted, index, runSync(readJsonSibling(shards.files, 'config.json')));
}
