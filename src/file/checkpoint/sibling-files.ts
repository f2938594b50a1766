/** Reads small files next to the weights, such as `config.json`. */

import { dirname, join } from 'node:path';
import { parsePythonJson } from '../../header/json/python-json.js';
import { closeFile } from '../../platform/io/file-calls.js';
import { openRegularFile, readBytesOf, readFully } from '../../platform/io/opened-file.js';
import { hasCode } from '../../platform/io/system-errors.js';
import type { Work } from '../../work/work.js';
import { maxSiblingByteLength } from '../shards/file-names.js';
import type { SiblingFile } from '../source/tensor-info.js';
import { insideOf, rejectLink, type SiblingPlace } from './find-files.js';

/**
 * Reads a file in the folder of `path`, by a name that stays below it; undefined when there is none.
 *
 * @throws FormatError `SAFETENSORS_UNSAFE_SHARD_NAME` for a link out of the folder; `SAFETENSORS_NOT_A_REGULAR_FILE`;
 *   Node's own errors, such as `EACCES`
 */
export function* readSibling(place: SiblingPlace, name: string): Work<SiblingFile | undefined> {
  if (place.readSibling !== undefined) return yield* place.readSibling(name);
  const folder = dirname(place.path);
  const path = join(folder, name);
  try {
    const isInside = yield* insideOf(folder);
    if (!(yield* isInside(path))) rejectLink(folder, name);
    const file = yield* openRegularFile(path, path);
    try {
      const { byteLength } = file;
      const bytes = new Uint8Array(Math.min(byteLength, maxSiblingByteLength(name)));
      yield* readFully(readBytesOf(file), bytes, 0, path);
      return Object.freeze({ path, bytes, byteLength });
    } finally {
      yield* closeFile(file.fd);
    }
  } catch (error) {
    if (hasCode(error, ['ENOENT', 'ENOTDIR'])) return undefined;
    throw error;
  }
}

/** All bytes of a sibling; undefined when there is none, or it is too long for a configuration. */
export function* readWholeSibling(place: SiblingPlace, name: string): Work<Uint8Array | undefined> {
  const file = yield* readSibling(place, name);
  return file?.bytes.length === file?.byteLength ? file?.bytes : undefined;
}

/** The parsed JSON of a sibling, for counts only; undefined when it cannot be read. */
export function* readJsonSibling(place: SiblingPlace, name: string): Work<unknown> {
  try {
    const bytes = yield* readWholeSibling(place, name);
    return bytes && parsePythonJson(bytes);
  } catch {
    return undefined;
  }
}
