/** The index of shards that have none, by their headers. */

import { FormatError, quoteName } from '../../errors/errors.js';
import type { FileContents } from '../../header/file-contents.js';
import type { Work } from '../../work/work.js';
import { ITEMS_PER_YIELD } from '../../work/yielding.js';
import {
  type CheckpointIndex,
  type ParseIndexOptions,
  parseIndexYielding,
} from './checkpoint-index.js';
import { encodeIndex } from './checkpoint-index-writer.js';

/** The names in a shard. */
export interface ShardNames {
  /** The name of the file. */
  readonly name: string;
  readonly header: Pick<FileContents, 'size' | 'name'>;
}

/** What a format adds to its implied index. */
interface ImpliedOptions extends Pick<ParseIndexOptions, 'shardExtension'> {
  readonly metadata?: ReadonlyMap<string, string>;
}

/**
 * Returns the index that shards without one would have. `path` names it in errors.
 *
 * @throws FormatError `SAFETENSORS_INDEX_MISMATCH` for a tensor in two shards: no index decides between them
 */
export function* impliedIndex(
  shards: readonly ShardNames[],
  path: string | undefined,
  { metadata = new Map(), shardExtension }: ImpliedOptions = {},
): Work<CheckpointIndex> {
  const weightMap = new Map<string, string>();
  for (const { name: shard, header } of shards) {
    for (let entry = 0; entry < header.size; entry++) {
      if (entry % ITEMS_PER_YIELD === 0) yield;
      const tensor = header.name(entry);
      const other = weightMap.get(tensor);
      if (other !== undefined) {
        const message = `found the tensor in ${quoteName(other)} and in ${quoteName(shard)}, and no index`;
        throw new FormatError('SAFETENSORS_INDEX_MISMATCH', message, { path, tensor });
      }
      weightMap.set(tensor, shard);
    }
  }
  const json = encodeIndex(metadata, weightMap);
  return yield* parseIndexYielding(json, { path, maxIndexByteLength: json.length, shardExtension });
}
