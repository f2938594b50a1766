/** Reads a remote index. */

import {
  type CheckpointIndex,
  checkIndexByteLength,
  DEFAULT_MAX_INDEX_BYTE_LENGTH,
  parseIndexYielding,
} from '../file/shards/checkpoint-index.js';
import { runAsync } from '../work/work.js';
import type { RemoteFile } from './remote-file.js';

/**
 * Fetches and parses an index. `acceptsIncomplete` accepts that of a delta, to inspect it.
 *
 * @throws FormatError; the errors of the requests
 */
export async function readRemoteIndex(
  file: RemoteFile,
  acceptsIncomplete: boolean | undefined,
  signal: AbortSignal,
): Promise<CheckpointIndex> {
  const { path } = file;
  const { bytes, fileByteLength } = await file.readStart(DEFAULT_MAX_INDEX_BYTE_LENGTH, signal);
  checkIndexByteLength(fileByteLength, { path });
  return await runAsync(parseIndexYielding(bytes, { path, acceptsIncomplete }), signal);
}
