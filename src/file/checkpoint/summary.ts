/** Summarizes a checkpoint by the headers of its shards and the `config.json` next to them. */

import type { FileContents } from '../../header/file-contents.js';
import type { Work } from '../../work/work.js';
import { type CheckpointSummary, countParameters } from '../hub/parameter-count.js';
import { countedFiles, isDequantized } from '../source/view.js';
import type { ShardFile } from './find-files.js';
import type { LazyShards } from './lazy-shards.js';
import { contentsOf, type Shard } from './shard.js';
import { readJsonSibling } from './sibling-files.js';

/** Counts the tensors of every shard. Opens shards that are not open, and closes those again. */
export function* summarize(shards: LazyShards<Shard>): Work<CheckpointSummary> {
  const { index, shards: files } = shards.files;
  const contents: FileContents[] = [];
  // biome-ignore lint/correctness/useYield: the header is in memory
  yield* shards.lendEach(function* (file, shard) {
    contents[shard] = contentsOf(file);
  });
  const counted = contents.flatMap((header, shard) =>
    countedFiles((files[shard] as ShardFile).name, header),
  );
  // A configuration describes codes, not the weights that a view computes from them.
  const config = contents.some(isDequantized)
    ? undefined
    : yield* readJsonSibling(shards.files, 'config.json');
  return countParameters(counted, index, config);
}
