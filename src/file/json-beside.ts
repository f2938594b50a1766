/** Reads files of JSON beside the weights, such as `config.json`. */

import { dirname, join } from 'node:path';
import { closeFile } from '../platform/io/file-calls.js';
import { openRegularFile, readBytesOf, readFully } from '../platform/io/opened-file.js';
import type { Steps } from '../platform/io/steps.js';
import { MAX_CONFIG_BYTE_LENGTH } from './hub/parameter-count.js';

/** Reads a file of that name in the folder of `path`; undefined when it cannot be read. */
export function* readJsonBeside(path: string, name: string): Steps<unknown> {
  try {
    const beside = join(dirname(path), name);
    const file = yield* openRegularFile(beside, beside);
    try {
      if (file.byteLength > MAX_CONFIG_BYTE_LENGTH) return undefined;
      const bytes = new Uint8Array(file.byteLength);
      yield* readFully(readBytesOf(file), bytes, 0, beside);
      return JSON.parse(new TextDecoder().decode(bytes));
    } finally {
      yield* closeFile(file.fd);
    }
  } catch {
    return undefined;
  }
}
