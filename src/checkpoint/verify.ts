/** Opens every shard of a checkpoint and compares it with the index. */

import { setImmediate } from 'node:timers/promises';
import { FileClosedError, SafetensorsError } from '../errors/errors.js';
import { SafetensorsFile } from '../file/file.js';
import { hasCode } from '../io/system-errors.js';
import { IndexCheck } from '../shards/checkpoint-index-check.js';
import type { LazyShards } from './lazy-shards.js';

/** The event loop gets a turn after this much work. */
const LONGEST_TURN_MS = 10;

/**
 * Opens every shard, which checks its header, and compares names, shards and total size. The event
 * loop goes on between shards.
 *
 * @throws FormatError `SAFETENSORS_INDEX_MISMATCH` with a list of what is wrong
 */
export async function verifyCheckpoint(shards: LazyShards): Promise<void> {
  const { index, path, shards: files } = shards.files;
  const check = new IndexCheck(index, path);
  let yieldedAt = performance.now();
  for (let shard = 0; shard < files.length; shard++) {
    try {
      check.add(shard, SafetensorsFile.contentOf(shards.open(shard)).header);
    } catch (error) {
      const isBad = error instanceof SafetensorsError || hasCode(error, ['ENOENT']);
      if (error instanceof FileClosedError || !isBad) throw error;
      check.addUnreadable(error as Error);
    }
    if (performance.now() - yieldedAt >= LONGEST_TURN_MS) {
      await setImmediate();
      yieldedAt = performance.now();
    }
  }
  check.finish();
}
