/** Reads small files beside the weights, such as `config.json`. */

import { dirname, join } from 'node:path';
import { closeFile } from '../platform/io/file-calls.js';
import { openRegularFile, readBytesOf, readFully } from '../platform/io/opened-file.js';
import type { Steps } from '../platform/io/steps.js';
import { hasCode } from '../platform/io/system-errors.js';
import { MAX_CONFIG_BYTE_LENGTH } from './hub/parameter-count.js';
import type { FileBeside } from './source/facts.js';

/**
 * Reads a file of that name in the folder of `path`; undefined when there is none.
 *
 * @throws `SAFETENSORS_NOT_A_REGULAR_FILE`; Node's own errors, such as `EACCES`
 */
export function* readBeside(path: string, name: string): Steps<FileBeside | undefined> {
  const beside = join(dirname(path), name);
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

/** The parsed `config.json` in the folder of `path`, for counts alone; undefined when it cannot be read. */
export function* readJsonBeside(path: string, name: string): Steps<unknown> {
  try {
    const file = yield* readBeside(path, name);
    if (file === undefined || file.bytes.length < file.byteLength) return undefined;
    return JSON.parse(new TextDecoder().decode(file.bytes));
  } catch {
    return undefined;
  }
}
