/** Reads small files beside the weights, such as `config.json`. */

import { dirname, join } from 'node:path';
import { parsePythonJson } from '../header/json/python-json.js';
import { closeFile } from '../platform/io/file-calls.js';
import { openRegularFile, readBytesOf, readFully } from '../platform/io/opened-file.js';
import { hasCode } from '../platform/io/system-errors.js';
import type { Work } from '../work/work.js';
import { MAX_CONFIG_BYTE_LENGTH } from './hub/parameter-count.js';
import type { FileBeside } from './source/facts.js';

/** A checkpoint, by its index or only file. */
export interface BesidePlace {
  readonly path: string;
  /** Of a model within an archive: as {@link readBeside}, since no folder has its files. */
  readonly readBeside?: ((name: string) => Work<FileBeside | undefined>) | undefined;
}

/**
 * Reads a file of that name in the folder of `path`; undefined when there is none.
 *
 * @throws `SAFETENSORS_NOT_A_REGULAR_FILE`; Node's own errors, such as `EACCES`
 */
export function* readBeside(place: BesidePlace, name: string): Work<FileBeside | undefined> {
  if (place.readBeside !== undefined) return yield* place.readBeside(name);
  const beside = join(dirname(place.path), name);
  try {
    const file = yield* openRegularFile(beside, beside);
    try {
      const { byteLength } = file;
      const bytes = new Uint8Array(Math.min(byteLength, MAX_CONFIG_BYTE_LENGTH));
      yield* readFully(readBytesOf(file), bytes, 0, beside);
      return { path: beside, bytes, byteLength };
    } finally {
      yield* closeFile(file.fd);
    }
  } catch (error) {
    if (hasCode(error, ['ENOENT', 'ENOTDIR'])) return undefined;
    throw error;
  }
}

/** The parsed `config.json` in the folder of a checkpoint, for counts alone; undefined when it cannot be read. */
export function* readJsonBeside(place: BesidePlace, name: string): Work<unknown> {
  try {
    const file = yield* readBeside(place, name);
    if (file === undefined || file.bytes.length < file.byteLength) return undefined;
    return parsePythonJson(file.bytes);
  } catch {
    return undefined;
  }
}
