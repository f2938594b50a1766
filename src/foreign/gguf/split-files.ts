/** The files of a GGUF model that was split: `model-00001-of-00003.gguf` and its siblings. */

import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { FormatError, quoteName, SafetensorsError } from '../../errors/errors.js';
import type { GgufValues } from './header/values.js';

const SPLIT_NAME = /^(.*)-(\d{5})-of-(\d{5})(\.gguf)$/i;

/** The name of a split file. */
interface SplitName {
  readonly number: number;
  readonly count: number;
  /** The name of another file of the model. */
  nameOf(number: number): string;
}

/** Returns the parts of a split file's name; null for other names. */
export function splitNameOf(name: string): SplitName | null {
  const found = SPLIT_NAME.exec(name);
  if (found === null) return null;
  const [, stem, number, count, extension] = found;
  const nameOf = (other: number): string =>
    `${stem}-${String(other).padStart(5, '0')}-of-${count}${extension}`;
  return { number: Number(number), count: Number(count), nameOf };
}

/**
 * Returns the paths of all files of a model, given one of them and its metadata.
 *
 * @throws FormatError `SAFETENSORS_INVALID_GGUF` for a file whose name and metadata differ; SafetensorsError
 *   `SAFETENSORS_MISSING_SHARDS`
 */
export function splitPaths(path: string, values: GgufValues): string[] {
  const count = values.number('split.count') ?? 1;
  if (count === 1) return [path];
  const name = splitNameOf(basename(path));
  const number = (values.number('split.no') ?? 0) + 1;
  if (name === null || name.count !== count || name.number !== number) {
    const message = `the metadata declares file ${number} of ${count}, which the file name must end in, as in model-00001-of-00003.gguf`;
    throw new FormatError('SAFETENSORS_INVALID_GGUF', message, { path });
  }
  const names = Array.from({ length: count }, (_, i) => name.nameOf(i + 1));
  const folder = dirname(path);
  const missing = names.filter((one) => !existsSync(join(folder, one)));
  if (missing.length > 0) {
    const shown = missing.slice(0, 3).map(quoteName).join(', ');
    const message = `${missing.length} of ${count} files of the model are missing: ${shown}`;
    throw new SafetensorsError('SAFETENSORS_MISSING_SHARDS', message, { path });
  }
  return names.map((one) => join(folder, one));
}
