/** Names of the files of a GGUF model that was split: `model-00001-of-00003.gguf` and its siblings. */

import { FormatError } from '../../../errors/errors.js';
import type { GgufValues } from './values.js';

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
 * Returns the names of all files of a model, given the name of one and its metadata. `path` is for errors.
 *
 * @throws FormatError `SAFETENSORS_INVALID_GGUF` for a file whose name and metadata differ
 */
export function splitNames(fileName: string, values: GgufValues, path: string): string[] {
  const count = values.number('split.count') ?? 1;
  if (count === 1) return [fileName];
  const name = splitNameOf(fileName);
  const number = (values.number('split.no') ?? 0) + 1;
  if (name === null || name.count !== count || name.number !== number) {
    const message = `the metadata declares file ${number} of ${count}, which the file name must end in, as in model-00001-of-00003.gguf`;
    throw new FormatError('SAFETENSORS_INVALID_GGUF', message, { path });
  }
  return Array.from({ length: count }, (_, i) => name.nameOf(i + 1));
}

/**
 * Throws `SAFETENSORS_INVALID_GGUF` when all files of a split model have another number of tensors than the metadata
 * of the first one declares.
 */
export function requireTensorCount(values: GgufValues, count: number, path: string): void {
  const declared = values.number('split.tensors.count') ?? count;
  if (declared === count) return;
  const message = `the metadata declares ${declared} tensors in all files, but they have ${count}`;
  throw new FormatError('SAFETENSORS_INVALID_GGUF', message, { path });
}
