/** Paths in the forms that callers give them. */

import { fileURLToPath } from 'node:url';
import { argumentTypeError } from '../../errors/arguments.js';
import { isUrl } from '../../errors/brand-checks.js';
import { quoteName } from '../../errors/errors.js';

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

/** Returns the path as text. `name` is the argument's name. Throws a TypeError unless it is a path. */
export function pathText(
  name: string,
  path: string | URL,
  expected = 'a string or a file: URL',
): string {
  if (typeof path !== 'string' && !isUrl(path)) throw argumentTypeError(name, expected, path);
  const objection = objectionTo(path);
  if (objection !== undefined) {
    const isRemote = /^https?:/i.test(String(path));
    const advice = isRemote
      ? '; openRemote of safetensors-mmap/remote reads what is elsewhere'
      : '';
    const message = `${name} must ${objection}, but is ${quoteName(String(path))}${advice}`;
    throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_URL_SCHEME' });
  }
  return typeof path === 'string' ? path : fileURLToPath(path);
}
