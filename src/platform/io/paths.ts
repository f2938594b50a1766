/** Paths in the forms that callers give them. */

import { fileURLToPath } from 'node:url';
import type { Advice } from '../../errors/advice.js';
import { argumentRangeError, argumentTypeError } from '../../errors/arguments.js';
import { isUrl } from '../../errors/brand-checks.js';
import { quoteName } from '../../errors/errors.js';
import { withoutQuery, withoutUsers } from '../../errors/urls.js';

/** A path as `node:fs` takes it; a Buffer for names that are not Unicode. */
export type PathLike = string | Uint8Array | URL;

/** A file that is open: a descriptor, or a `FileHandle`. It stays the caller's. */
export type Descriptor = number | OpenFileHandle;

/** What `FileHandle` of `node:fs/promises` has. */
export interface OpenFileHandle {
  /** The descriptor. */
  readonly fd: number;
}

/** A path, or an open file. */
export type PathOrDescriptor = PathLike | Descriptor;

/** Highest descriptor that `node:fs` takes. */
const MAX_DESCRIPTOR = 2 ** 31 - 1;

/** A path for system calls, and its text for messages. */
interface Location {
  readonly location: string | Buffer;
  readonly label: string;
}

/** A descriptor of the caller's, and its text for messages. */
export interface DescriptorArgument {
  readonly fd: number;
  readonly label: string;
  /** Node closes the descriptor of a handle that is collected. */
  readonly handle: { readonly fd: number } | undefined;
}

/** Throws a TypeError for anything but a path. */
export function locate(path: PathLike, expected = 'a string, a Buffer or a file: URL'): Location {
  if (Buffer.isBuffer(path)) return { location: path, label: path.toString() };
  const location = requirePath('path', path as string | URL, expected);
  return { location, label: location };
}

/** As {@link locate}, and takes descriptors. Throws a RangeError for a closed FileHandle. */
export function locateOpen(path: PathOrDescriptor): Location | DescriptorArgument {
  const handle = isFileHandle(path) ? path : undefined;
  if (handle === undefined && typeof path !== 'number') {
    return locate(
      path as PathLike,
      'a string, a Buffer, a file: URL, a descriptor or a FileHandle',
    );
  }
  const fd = handle?.fd ?? (path as number);
  if (handle?.fd === -1) {
    const message = 'path must be an open FileHandle, but is a closed one';
    throw Object.assign(new RangeError(message), { code: 'ERR_OUT_OF_RANGE' });
  }
  if (!Number.isInteger(fd) || fd < 0 || fd > MAX_DESCRIPTOR) {
    throw argumentRangeError('path', `a descriptor from 0 to ${MAX_DESCRIPTOR}`, path);
  }
  return { fd, label: `descriptor ${fd}`, handle };
}

function isFileHandle(path: PathOrDescriptor): path is { readonly fd: number } {
  return (
    typeof path === 'object' &&
    path !== null &&
    !ArrayBuffer.isView(path) &&
    'fd' in path &&
    typeof path.fd === 'number'
  );
}

/** Returns the fault of a URL given as text, or of a URL of another machine; undefined for paths. */
function objectionTo(path: string | URL): string | undefined {
  const isText = typeof path === 'string';
  // The first use of a regular expression that ignores case takes 0.2 ms.
  if (isText && !path.includes('://')) return undefined;
  const [, scheme] = (isText ? /^([a-z][a-z\d+.-]+):\/\//i : /^(https?):/).exec(String(path)) ?? [];
  // Callers that accept ids of the Hub handle them.
  if (scheme === undefined || scheme === 'hf') return undefined;
  if (/^file$/i.test(scheme)) return 'be a path or a URL, new URL(…), not its text';
  return 'be on this machine';
}

const USE_REMOTE: Advice = {
  option: 'download',
  text: 'open() reads remote checkpoints, download() fetches files',
};

/** Returns the path as text. `name` is the argument's name. Throws a TypeError unless it is a path. */
export function requirePath(
  name: string,
  path: string | URL,
  expected = 'a string or a file: URL',
): string {
  if (typeof path !== 'string' && !isUrl(path)) throw argumentTypeError(name, expected, path);
  const objection = objectionTo(path);
  if (objection !== undefined) {
    const shown = withoutUsers(withoutQuery(String(path)));
    const isRemote = /^https?:/i.test(shown);
    const message = `${name} must ${objection}, but is ${quoteName(shown)}`;
    const code = 'ERR_INVALID_URL_SCHEME';
    if (!isRemote) throw Object.assign(new TypeError(message), { code, argument: name });
    const error = new TypeError(`${message}; ${USE_REMOTE.text}`);
    throw Object.assign(error, { code, argument: name, advice: [USE_REMOTE] });
  }
  return typeof path === 'string' ? path : fileURLToPath(path);
}
