/** Checks relative paths from untrusted sources: of shards, of files on the Hub, of variants. */

import { OPEN_READS } from '../../errors/advice.js';
import { type ErrorContext, FormatError, quoteName } from '../../errors/errors.js';

/** The end of every shard's name, but for shards of other formats. */
export const SHARD_EXTENSION = '.safetensors';

/** The end of the names of torch's shards. */
export const TORCH_SHARD_EXTENSION = '.bin';

/** Extensions of weights, in whatever format. */
const WEIGHTS =
  /\.(?:safetensors|bin|pt|pth|ckpt|pdparams|gguf|ggml|onnx(?:[._]data(?:_\d+)?)?|h5|keras|msgpack|ot|tflite|npz)$/i;

/** Whether a file of this name holds weights, in whatever format. */
export function hasWeightsExtension(name: string): boolean {
  return WEIGHTS.test(name);
}

/** The end of the name of an index, after the extension of the weights. */
const INDEX_END = /\.index(?:\.[^.]+)?\.json$/i;

/** Whether a file of this name holds weights, in whatever format, or is an index of such files. */
export function hasWeightsName(name: string): boolean {
  return hasWeightsExtension(name.replace(INDEX_END, ''));
}

const TORCH_HINT = `, a torch file: ${OPEN_READS.text} its index`;

// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern looks for them
const CONTROL_CHARACTER = /[\u0000-\u001f\u007f-\u009f]/;

/**
 * The objection to a relative path, by the rules of both POSIX and Windows; null when it stays below
 * the folder that it is joined to. Symbolic links that lead out are checked elsewhere.
 */
export function pathError(path: string): string | null {
  if (path === '') return 'an empty name';
  if (CONTROL_CHARACTER.test(path)) return 'a control character';
  if (path.includes('\\')) return 'a backslash';
  if (path.includes(':')) return 'a colon';
  if (!path.isWellFormed()) return 'a lone surrogate';
  const parts = path.split('/');
  if (parts[0] === '') return 'an absolute path';
  if (parts.includes('')) return 'an empty part';
  if (parts.includes('..')) return 'a ".." part';
  return null;
}

/** Decoding a path of a URL so often finds all that a server could find. */
const MAX_DECODINGS = 8;

/**
 * As `pathError`, of a path that becomes part of a URL: it must stay below its folder also for servers
 * that decode `%2e%2e%2f`, however often.
 */
export function urlPathObjection(path: string): string | null {
  let decoded = path;
  for (let count = 0; count < MAX_DECODINGS; count++) {
    const objection = pathError(decoded);
    if (objection !== null) return objection;
    const before = decoded;
    // Only ASCII characters can lead elsewhere. `decodeURIComponent` decodes none if one is malformed.
    decoded = before.replace(/%([0-7][\da-f])/gi, (_, digits: string) =>
      String.fromCharCode(Number.parseInt(digits, 16)),
    );
    if (decoded === before) return null;
  }
  return 'percent signs that are encoded over and over';
}

/**
 * Throws if the path of a shard or another file leaves the folder.
 *
 * @throws FormatError `SAFETENSORS_UNSAFE_SHARD_NAME`; `path` is the file that names the shard
 */
export function requireInside(name: string, path: string | undefined): void {
  const objection = urlPathObjection(name);
  if (objection === null) return;
  const message = `expected the path of a file below the folder, found ${objection} in ${quoteName(name)}`;
  throw new FormatError('SAFETENSORS_UNSAFE_SHARD_NAME', message, { path });
}

/**
 * Checks the path of a small file in the folder of a model, local or remote, and drops its `.` parts.
 *
 * @throws As {@link requireInside}
 */
export function siblingName(name: string, path: string | undefined): string {
  const inner = withoutDots(name);
  requireInside(inner, path);
  return inner;
}

/** Whether an index is not a file of this machine. */
function isAddress(path = ''): boolean {
  return path.includes('://');
}

/**
 * Checks the name of a shard and drops its `.` parts: one file has one name.
 *
 * @throws FormatError `SAFETENSORS_UNSAFE_SHARD_NAME`; the context names index and tensor
 */
export function checkShardName(
  name: string,
  context: ErrorContext,
  extension: string = SHARD_EXTENSION,
): string {
  const objection = pathError(name);
  const found = objection ?? (name.endsWith(extension) ? null : 'another extension');
  if (found !== null) {
    const expected = `a shard's name to be a relative path that ends with ${extension}`;
    // Not when the opener of torch asks, and not for an index that it cannot open either.
    const isOfTorch = objection === null && name.endsWith(TORCH_SHARD_EXTENSION);
    const isRead = isOfTorch && !isAddress(context.path);
    const hint = isRead ? TORCH_HINT : '';
    const advice = isRead ? [OPEN_READS] : undefined;
    const message = `expected ${expected}, found ${found} in ${quoteName(name)}${hint}`;
    throw new FormatError('SAFETENSORS_UNSAFE_SHARD_NAME', message, { ...context, advice });
  }
  return withoutDots(name);
}

function withoutDots(name: string): string {
  return name
    .split('/')
    .filter((part) => part !== '.')
    .join('/');
}
