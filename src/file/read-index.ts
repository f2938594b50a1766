/** Reads the index of a sharded checkpoint. */

import { closeFile } from '../platform/io/file-calls.js';
import { openRegularFile, readBytesOf, readFully } from '../platform/io/opened-file.js';
import type { Work } from '../work/work.js';
import {
  type CheckpointIndex,
  checkIndexByteLength,
  type ParseIndexOptions,
  parseIndexYielding,
} from './shards/checkpoint-index.js';

/** Reads and checks an index, unless it is too long. Throws FormatError, and Node's own errors. */
export function* readIndex(path: string, options: ParseIndexOptions): Work<CheckpointIndex> {
  const file = yield* openRegularFile(path, path);
  try {
    checkIndexByteLength(file.byteLength, { ...options, path });
    const json = new Uint8Array(file.byteLength);
    yield* readFully(readBytesOf(file), json, 0, path);
    return yield* parseIndexYielding(json, { ...options, path });
  } finally {
    yield* closeFile(file.fd);
  }
}
