/** Paths in the forms that callers give them. */

import { fileURLToPath } from 'node:url';
import { argumentTypeError } from '../errors/arguments.js';

/** A path as `node:fs` takes it; a Buffer for names that are not Unicode. */
export type PathLike = string | Buffer | URL;

/** A path for system calls, and its text for messages. */
interface Location {
  readonly location: string | Buffer;
  readonly label: string;
}

/** Throws a TypeError for anything but a path. */
export function locate(path: PathLike): Location {
  if (typeof path === 'string') return { location: path, label: path };
  if (Buffer.isBuffer(path)) return { location: path, label: path.toString() };
  if (path instanceof URL) {
    const location = fileURLToPath(path);
    return { location, label: location };
  }
  throw argumentTypeError('path', 'a string, a Buffer or a file: URL', path);
}
