/** File names of weights in repositories, as constants named as in `@huggingface/hub`. */

import { argumentRangeError, requireString } from '../../errors/arguments.js';
import { FormatError, quoteName } from '../../errors/errors.js';
import { urlPathObjection } from '../../file/shards/shard-paths.js';
import { encodePath } from '../hub-address.js';

/** A model of one file. */
export const SAFETENSORS_FILE = 'model.safetensors';

/** The index of a model in several files. */
export const SAFETENSORS_INDEX_FILE = 'model.safetensors.index.json';

/** A model of diffusers in one file. */
export const DIFFUSERS_SAFETENSORS_FILE = 'diffusion_pytorch_model.safetensors';

/** The index of a model of diffusers in several files. */
export const DIFFUSERS_SAFETENSORS_INDEX_FILE = 'diffusion_pytorch_model.safetensors.index.json';

/** Folders in which a diffusers pipeline has its main model, the likelier first. */
export const DIFFUSERS_WEIGHTS_SUBFOLDERS = ['transformer', 'unet'] as const;

/** The end of the name of a file with tensors. */
export const RE_SAFETENSORS_FILE: RegExp = /\.safetensors$/;

/** The end of the name of an index. */
export const RE_SAFETENSORS_INDEX_FILE: RegExp = /\.safetensors\.index\.json$/;

/** The name of one of several files, such as `model-00001-of-00002.safetensors`. */
export const RE_SAFETENSORS_SHARD_FILE: RegExp =
  /^(?<prefix>(?<basePrefix>.*?)[_-])(?<shard>\d{5,6})-of-(?<total>\d{5,6})\.safetensors$/;

/** The parts of a shard's name. */
export interface SafetensorsShardFileInfo {
  /** The part before the number, such as `model-`. */
  prefix: string;
  /** The prefix without its last character, such as `model`. */
  basePrefix: string;
  /** The number of the shard, as `00001`. */
  shard: string;
  /** The number of shards, as `00002`. */
  total: string;
}

/**
 * Splits the name of a shard into its parts; null for any other name.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for anything but a string
 *
 * @example
 * ```ts
 * const { shard, total } = parseSafetensorsShardFilename('model-00002-of-00163.safetensors') ?? {};
 * console.log(shard, total); // → 00002 00163
 * ```
 */
export function parseSafetensorsShardFilename(filename: string): SafetensorsShardFileInfo | null {
  requireString('filename', filename);
  const parts = RE_SAFETENSORS_SHARD_FILE.exec(filename)?.groups;
  if (parts === undefined) return null;
  const { prefix = '', basePrefix = '', shard = '', total = '' } = parts;
  return { prefix, basePrefix, shard, total };
}

/**
 * Throws unless the name of a shard in an index is a relative path below the folder of the index, also after a server
 * has decoded it. `parseSafetensorsMetadata` checks every name itself.
 *
 * @throws FormatError `SAFETENSORS_UNSAFE_SHARD_NAME`; TypeError `ERR_INVALID_ARG_TYPE` for anything but a string
 *
 * @example
 * ```ts
 * try {
 *   assertSafeShardFilename('%2e%2e/model.safetensors');
 * } catch (error) {
 *   console.log(error instanceof FormatError && error.code); // → SAFETENSORS_UNSAFE_SHARD_NAME
 * }
 * ```
 */
export function assertSafeShardFilename(filename: string): void {
  requireString('filename', filename);
  const found = urlPathObjection(filename) ?? malformedPart(filename);
  if (found === null) return;
  const message = `expected the name of a shard to be a relative path, found ${found} in ${quoteName(filename)}`;
  throw new FormatError('SAFETENSORS_UNSAFE_SHARD_NAME', message);
}

/** Decodings of a name: as many as `@huggingface/hub` looks at. */
const MAX_DECODINGS = 5;

/** A part that URLs drop, or a percent sign without a meaning; null without either. */
function malformedPart(filename: string): string | null {
  let decoded = filename;
  for (let count = 0; count < MAX_DECODINGS; count++) {
    if (decoded.split('/').includes('.')) return 'a "." part';
    const before = decoded;
    try {
      decoded = decodeURIComponent(before);
    } catch {
      return 'a malformed percent sign';
    }
    if (decoded === before) return null;
  }
  return null;
}

/**
 * Encodes every part of a path for a URL.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for anything but a string; RangeError
 *   `ERR_OUT_OF_RANGE` for a lone surrogate, which no URL can contain
 *
 * @example
 * ```ts
 * console.log(encodeShardFilename('sub folder/model.safetensors')); // → sub%20folder/model.safetensors
 * ```
 */
export function encodeShardFilename(filename: string): string {
  requireString('filename', filename);
  if (!filename.isWellFormed()) {
    throw argumentRangeError('filename', 'text without lone surrogates', filename);
  }
  return encodePath(filename);
}
