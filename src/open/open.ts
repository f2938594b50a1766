/** `open`: anything with tensors, whatever its format and its place. */

import { argumentTypeError } from '../errors/arguments.js';
import { isUint8Array, isUrl } from '../errors/brand-checks.js';
import { FormatError } from '../errors/errors.js';
import type { Checkpoint } from '../file/checkpoint/checkpoint.js';
import { parse, safeOpenAsync } from '../file/checkpoint/open.js';
import { statPath } from '../platform/io/file-calls.js';
import { requirePath } from '../platform/io/paths.js';
import { runAsync } from '../work/work.js';
import {
  type OpenSourceOptions,
  requireFormat,
  requireFormats,
  usedOptions,
} from './sources/options.js';
import { isRequested, openRequested, requireOpenOptions, SOURCES } from './sources/requested.js';
import type { LocalSource, Opened, Source } from './sources/sources.js';

/** Names of files and indexes that are always safetensors: no other reader is loaded for them. */
const SAFETENSORS_NAME = /\.safetensors(?:\.index[^/\\]*\.json)?$/;

/**
 * Opens a checkpoint of any format, anywhere.
 *
 * - A path, a `file:` URL, or the id of a repository in the Hub cache: a safetensors file, folder or index, a PyTorch
 *   checkpoint (`.pt`, `.pth`, `.bin`, `.ckpt`, its index, or the folder of a distributed one), NumPy arrays (`.npy`,
 *   `.npz`), or a GGUF file. Contents decide, not names. Pickles are read as data: nothing in them is imported or
 *   called. PyTorch files and NumPy arrays are read by their path only.
 * - A descriptor or a `FileHandle`, which stays yours, or a `Uint8Array` with a safetensors file.
 * - An address: a safetensors or GGUF file, an index, or `.metadata` on a server that answers ranges, or a repository
 *   on the Hub (`hf://org/name@revision/path`, or the URL of one of its pages). Opening requests headers only. With
 *   `HF_HUB_OFFLINE=1` repositories are read from the Hub cache, without requests.
 * - A `Blob`, a Map of Blobs by path, or `{ byteLength, read }`.
 *
 * Returns a `Checkpoint` for what is local, whose tensors are at hand, and a `RemoteCheckpoint` for addresses, Blobs and
 * readers, whose tensors are promises. A text without a scheme never makes a request. For a user's text, pass
 * `remote: false`, and `formats: ['safetensors']` to keep pickles out. Close the handle, or declare it with `using`.
 *
 * @throws FormatError for a file that is damaged, incomplete, or of another format
 * @throws SafetensorsError as `safeOpen`; RemoteError with the reason why an address is not available
 * @throws RangeError `ERR_OUT_OF_RANGE` for an option that the source cannot use; TypeError `ERR_INVALID_URL_SCHEME` for an
 *   address with `remote: false`
 * @throws Error Node's own `ENOENT`, `EACCES` and the like; `signal.reason`
 *
 * @example
 * ```ts
 * const checkpoint = await open('model.ckpt'); // of PyTorch Lightning
 * console.log(checkpoint.format, checkpoint.root, checkpoint.keys()); // → torch [ 'state_dict' ] [ 'b', 'w' ]
 * console.log(checkpoint.getTensor('w').data); // → Float32Array(6) [ 0, 1, 2, 3, 4, 5 ]
 * checkpoint.close();
 *
 * const remote = await open('https://models.example/model.safetensors');
 * console.log((await remote.getTensor('norm.weight')).data); // → Float32Array(4) [ 0, 0, 0, 0 ]
 * remote.close();
 * ```
 */
export async function open(
  source: LocalSource,
  options: OpenSourceOptions & { readonly remote: false },
): Promise<Checkpoint>;
/** As above, with the handle that the type of the source shows. */
export async function open<const Given extends Source>(
  source: Given,
  options?: OpenSourceOptions,
): Promise<Opened<Given>>;
export async function open<Given extends Source>(
  source: Given,
  options: OpenSourceOptions = {},
): Promise<Opened<Given>> {
  requireOpenOptions(options);
  const opened = await openKind(source, options);
  return opened as Opened<Given>;
}

async function openKind(source: Source, options: OpenSourceOptions): Promise<Opened<Source>> {
  if (isRequested(source)) {
    const { openRemote } = await import('../remote/node/open-remote.js');
    return await openRequested(source, options, openRemote);
  }
  const { remote = true, signal } = options;
  const formats = requireFormats(options.formats);
  if (isUint8Array(source)) {
    requireFormat('safetensors', formats);
    return parse(source, usedOptions(options, 'bytes'));
  }
  if (typeof source !== 'string' && !isUrl(source)) {
    requireDescriptor(source);
    requireFormat('safetensors', formats);
    return await safeOpenAsync(source, { ...usedOptions(options, 'descriptor'), signal });
  }
  // The id of a cached repository is no path: then the error of the system is thrown.
  if (!remote) await runAsync(statPath(requirePath('source', source)), signal);
  const isNamed = formats.includes('safetensors') && SAFETENSORS_NAME.test(String(source));
  const isOnly = formats.every((format) => format === 'safetensors');
  if (isNamed || isOnly) {
    const opening = usedOptions(options, 'safetensors');
    try {
      return await safeOpenAsync(source, { ...opening, signal });
    } catch (error) {
      if (isOnly || !isOtherFormat(error)) throw error;
    }
  }
  const { openPath } = await import('./open-path.js');
  return await openPath(source, options, formats);
}

/** Throws a TypeError for anything that no kind of source is. */
export function requireDescriptor(source: unknown): void {
  const isHandle = typeof source === 'object' && source !== null && 'fd' in source;
  if (typeof source !== 'number' && !isHandle) throw argumentTypeError('source', SOURCES, source);
}

/** Whether a file that is called safetensors may be of another format. */
function isOtherFormat(error: unknown): boolean {
  const { foundFormat = '' } = error instanceof FormatError ? error : {};
  return ['zip', 'pickle', 'numpy'].includes(foundFormat);
}
