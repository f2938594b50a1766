/** Opens sources that are read by requests, in Node and in browsers. */

import { requireBoolean, requireOptions, requireSignal } from '../../errors/arguments.js';
import { isUint8Array, isUrl } from '../../errors/brand-checks.js';
import { quoteName } from '../../errors/errors.js';
import { withoutQuery, withoutUsers } from '../../errors/urls.js';
import type { RemoteCheckpoint } from '../../remote/checkpoint.js';
import type { RemoteOptions } from '../../remote/open.js';
import {
  OPEN_SOURCE_OPTIONS,
  type OpenSourceOptions,
  requireFormat,
  requireFormats,
  usedOptions,
} from './options.js';
import type { RequestedSource } from './sources.js';

const ADDRESS = /^(?!file:)[a-z][a-z\d+.-]+:\/\//i;

/** The kinds of sources, for messages. */
export const SOURCES: string =
  'a path, a URL, hf://org/name, a Uint8Array, a Blob, a Map of Blobs, a descriptor, a FileHandle, or an object with ' +
  'byteLength and read(begin, end, signal)';

/** Whether a source is read by requests. */
export function isRequested(source: unknown): source is RequestedSource {
  if (typeof source === 'string' || isUrl(source)) return isAddress(source);
  return (
    typeof source === 'object' && source !== null && !isUint8Array(source) && !('fd' in source)
  );
}

/** Whether a text or a URL is an address; a `file:` URL is a path. */
export function isAddress(source: unknown): source is string | URL {
  return (typeof source === 'string' || isUrl(source)) && ADDRESS.test(String(source));
}

/** Checks the options of `open`. Throws a TypeError, or `signal.reason`. */
export function requireOpenOptions(options: OpenSourceOptions): void {
  requireOptions(options, OPEN_SOURCE_OPTIONS);
  requireBoolean('remote', options.remote ?? true);
  requireBoolean('verify', options.verify ?? true);
  requireFormats(options.formats);
  requireSignal(options.signal);
  options.signal?.throwIfAborted();
}

/** `open` of this runtime. */
type OpenRemote = (
  source: RequestedSource,
  options: RemoteOptions,
  formats: readonly string[],
) => Promise<RemoteCheckpoint>;

/**
 * Opens a source that is read by requests; the options are checked.
 *
 * @throws TypeError `ERR_INVALID_URL_SCHEME` for an address with `remote: false`; RangeError `ERR_OUT_OF_RANGE` for
 *   options that it cannot use; as `open`
 */
export async function openRequested(
  source: RequestedSource,
  options: OpenSourceOptions,
  openRemote: OpenRemote,
): Promise<RemoteCheckpoint> {
  const { remote = true, formats, signal } = options;
  requireLocal(source, remote);
  const read = requireFormats(formats);
  if (!read.includes('gguf') && !read.includes('dcp')) requireFormat('safetensors', read);
  return await openRemote(source, { ...usedOptions(options, 'remote'), signal }, read);
}

/** Throws for an address where only local sources are allowed; the message shows no secrets. */
export function requireLocal(source: unknown, remote: boolean): void {
  if (remote || !isAddress(source)) return;
  const shown = quoteName(withoutUsers(withoutQuery(String(source))));
  const message = `source must be on this machine, because remote is false, but is ${shown}`;
  throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_URL_SCHEME' });
}
