/** Opens every shard of a checkpoint and compares it with the index. */

import { FileClosedError, SafetensorsError } from '../errors/errors.js';
import { SafetensorsFile } from '../file/file.js';
import type { Steps } from '../io/steps.js';
import { hasCode } from '../io/system-errors.js';
import { IndexCheck } from '../shards/checkpoint-index-check.js';
import type { LazyShards } from './lazy-shards.js';

/**
 * Opens every shard, which checks its header, and compares names, shards and total size. The event
 * loop may turn between shards.
 *
 * @throws FormatError `SAFETENSORS_INDEX_MISMATCH` with a list of what is wrong
 */
export function* verifyCheckpoint(shards: LazyShards): Steps<void> {
  const { index, path, shards: files } = shards.files;
  const check = new IndexCheck(index, path);
  for (let shard = 0; shard < files.length; shard++) {
    try {
      check.add(shard, SafetensorsFile.contentOf(shards.open(shard)).header);
    } catch (error) {
      const isBad = error instanceof SafetensorsError || hasCode(error, ['ENOENT']);
      if (error instanceof FileClosedError || !isBad) throw error;
      check.addUnreadable(error as Error);
    }
    yield;
  }
  check.finish();
}
