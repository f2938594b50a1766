/** Paths in the forms that callers give them. */

import { fileURLToPath } from 'node:url';
import { argumentTypeError } from '../errors/arguments.js';
import { isUrl } from '../errors/brand-checks.js';
import { quoteName } from '../errors/errors.js';

/** A path as `node:fs` takes it; a Buffer for names that are not Unicode. */
export type PathLike = string | Buffer | URL;

/** A path for system calls, and its text for messages. */
interface Location {
  readonly location: string | Buffer;
  readonly label: string;
}

/** Throws a TypeError for anything but a path. */
export function locate(path: PathLike): Location {
  if (Buffer.isBuffer(path)) return { location: path, label: path.toString() };
  const location = pathText('path', path, 'a string, a Buffer or a file: URL');
  return { location, label: location };
}

function isRemote(path: string | URL): boolean {
  return typeof path === 'string' ? /^https?:\/\//i.test(path) : /^https?:$/.test(path?.protocol);
}

/** The path as text. `name` is what the argument is called. Throws a TypeError unless it is a path. */
export function pathText(
  name: string,
  path: string | URL,
  expected = 'a string or a file: URL',
): string {
  if (isRemote(path)) {
    const message = `${name} must be on this machine, but is ${quoteName(String(path))}: download it first`;
    throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_URL_SCHEME' });
  }
  if (typeof path === 'string') return path;
  if (isUrl(path)) return fileURLToPath(path);
  throw argumentTypeError(name, expected, path);
}
