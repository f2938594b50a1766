/**
 * Checks names of a repository that this system may not support: long and reserved names, and names that it regards
 * as equal.
 */

import { Buffer } from 'node:buffer';
import { lstatSync } from 'node:fs';
import process from 'node:process';
import { FormatError, quoteName } from '../../errors/errors.js';
import { hasCode } from '../../platform/io/system-errors.js';

/** Names that Windows reserves for devices, endings that it removes, characters that it forbids. */
const RESERVED =
  /^(?:con|prn|aux|nul|conin\$|conout\$|com[1-9¹²³]|lpt[1-9¹²³])(?:\..*)?$|[. ]$|[<>"|?*]/i;

/** The longest part of a path: in UTF-16 units on Windows, elsewhere in bytes. Temporary names are shorter. */
const MAX_NAME_LENGTH = 255;

function isTooLong(path: string, platform: string): boolean {
  const lengthOf = (part: string): number =>
    platform === 'win32' ? part.length : Buffer.byteLength(part);
  return path.split('/').some((part) => lengthOf(part) > MAX_NAME_LENGTH);
}

/** Whether a name, or its path, is too long for this system; file systems differ. */
export function isTooLongHere(
  name: string,
  path: string,
  platform: string = process.platform,
): boolean {
  if (isTooLong(name, platform)) return true;
  try {
    lstatSync(path, { throwIfNoEntry: false });
    return false;
  } catch (error) {
    return hasCode(error, ['ENAMETOOLONG']);
  }
}

/** Systems whose file systems usually ignore case. */
const FOLDING: readonly string[] = ['win32', 'darwin'];

/**
 * Throws unless one folder can hold files of all these paths, which differ. Except on Windows and macOS only the
 * length matters, and that no file has the name of a folder.
 *
 * @throws FormatError `SAFETENSORS_UNSAFE_SHARD_NAME`; `path` is that of the source
 */
export function requireLocalNames(
  names: Iterable<string>,
  path: string,
  platform: string = process.platform,
): void {
  const fail = (message: string): never => {
    throw new FormatError('SAFETENSORS_UNSAFE_SHARD_NAME', message, { path });
  };
  const seen = new Map<string, string>();
  const all = new Set(names);
  for (const name of all) {
    for (let end = name.indexOf('/'); end !== -1; end = name.indexOf('/', end + 1)) {
      const folder = name.slice(0, end);
      if (!all.has(folder)) continue;
      fail(`expected a file or a folder of a name, found both: ${quoteName(folder)}`);
    }
    if (isTooLong(name, platform)) {
      fail(`expected names of at most ${MAX_NAME_LENGTH} bytes, found ${quoteName(name)}`);
    }
    if (platform === 'win32' && name.split('/').some((part) => RESERVED.test(part))) {
      fail(`expected names that Windows can have, found ${quoteName(name)}`);
    }
    if (!FOLDING.includes(platform)) continue;
    // Some letters have one capital: `ſ` and `s`, `ς` and `σ`.
    const folded = name.normalize().toUpperCase().toLowerCase();
    const other = seen.get(folded);
    if (other !== undefined) {
      const found = `${quoteName(other)} and ${quoteName(name)}`;
      fail(`expected names that differ in more than case here, found ${found}`);
    }
    seen.set(folded, name);
  }
}
