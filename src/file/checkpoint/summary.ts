/** Summarizes a checkpoint by the headers of its shards and the `config.json` beside them. */

import { dirname, join } from 'node:path';
import { closeFile } from '../../platform/io/file-calls.js';
import { openRegularFile, readBytesOf, readFully } from '../../platform/io/opened-file.js';
import { runSync, type Steps } from '../../platform/io/steps.js';
import {
  type CheckpointSummary,
  countParameters,
  MAX_CONFIG_BYTE_LENGTH,
} from '../hub/parameter-count.js';
import type { LazyShards } from './lazy-shards.js';
import { type Shard, verifiedContents } from './shard.js';

/** Opens every shard and counts its tensors. */
export function summarize(shards: LazyShards<Shard>): CheckpointSummary {
  shards.requireOpen();
  const { index, path, shards: files } = shards.files;
  const counted = Array.from(shards, (file, shard) => ({
    name: (files[shard] as { name: string }).name,
    header: verifiedContents(file),
  }));
  return countParameters(counted, index, runSync(readConfig(path)));
}

/** Reads the `config.json` beside a checkpoint; undefined when it cannot be read. */
export function* readConfig(path: string): Steps<unknown> {
  try {
    const config = join(dirname(path), 'config.json');
    const file = yield* openRegularFile(config, config);
    try {
      if (file.byteLength > MAX_CONFIG_BYTE_LENGTH) return undefined;
      const bytes = new Uint8Array(file.byteLength);
      yield* readFully(readBytesOf(file), bytes, 0, config);
      return JSON.parse(new TextDecoder().decode(bytes));
    } finally {
      yield* closeFile(file.fd);
    }
  } catch {
    return undefined;
  }
}
