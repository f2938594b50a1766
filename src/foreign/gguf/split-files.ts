/** The files of a GGUF model that was split. */

import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { quoteName, SafetensorsError } from '../../errors/errors.js';
import { splitNames } from './header/split-names.js';
import type { GgufValues } from './header/values.js';

/**
 * Returns the paths of all files of a model, given one of them and its metadata.
 *
 * @throws As `splitNames`; SafetensorsError `SAFETENSORS_MISSING_SHARDS`
 */
export function splitPaths(path: string, values: GgufValues): string[] {
  const names = splitNames(basename(path), values, path);
  if (names.length === 1) return [path];
  const folder = dirname(path);
  const missing = names.filter((one) => !existsSync(join(folder, one)));
  if (missing.length > 0) {
    const shown = missing.slice(0, 3).map(quoteName).join(', ');
    const message = `${missing.length} of ${names.length} files of the model are missing: ${shown}`;
    throw new SafetensorsError('SAFETENSORS_MISSING_SHARDS', message, { path });
  }
  return names.map((one) => join(folder, one));
}
