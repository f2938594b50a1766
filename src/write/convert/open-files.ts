/** The open files of a checkpoint of another format, as the source of a conversion. */

import { Checkpoint } from '../../file/checkpoint/checkpoint.js';
import type { LazyShards } from '../../file/checkpoint/lazy-shards.js';
import { takenEntries } from '../../file/shards/taken-entries.js';
import type { RootKeys } from '../../file/source/plain-value.js';
import type { ForeignShard } from '../../foreign/foreign-shard.js';
import type { OpenSource } from './source.js';

/** Takes ownership of the checkpoint; `root` as in its handle. */
export function openFilesOf(checkpoint: Checkpoint, root: RootKeys | undefined): OpenSource {
  const shards = Checkpoint.shardsOf(checkpoint) as LazyShards<ForeignShard>;
  const opened = [...shards];
  const contents = opened.map((shard) => shard.contents);
  const { problems } = checkpoint;
  const path = checkpoint.path as string;
  const unreadable = new Set(problems.map(({ tensor }) => tensor as string));
  const { index, path: indexPath } = shards.files;
  const { taken, duplicates } = takenEntries(contents, index, indexPath, unreadable);
  return {
    ...{ path, problems, root, duplicates, metadata: null },
    files: [path, ...opened.flatMap((shard) => shard.path ?? [])],
    tensors: contents.flatMap(({ tensors }, shard) =>
      tensors.filter((_, entry) => taken[shard]?.[entry] === 1),
    ),
    archives: new Map(opened.map(({ archive }) => archive)),
    close: () => checkpoint.close(),
  };
}
