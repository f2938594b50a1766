/** Names that a repository may have and this system may not: reserved ones, and two that it takes for one. */

import process from 'node:process';
import { FormatError, quoteName } from '../errors/errors.js';

/** What Windows keeps for devices, takes away from the end of a name, or has in none. */
const RESERVED =
  /^(?:con|prn|aux|nul|conin\$|conout\$|com[1-9¹²³]|lpt[1-9¹²³])(?:\..*)?$|[. ]$|[<>"|?*]/i;

/** Systems whose file systems usually do not tell `A` from `a`. */
const FOLDING: readonly string[] = ['win32', 'darwin'];

/**
 * Throws unless files of these paths, of which none comes twice, can lie in one folder side by side. Elsewhere
 * than on Windows and macOS all can.
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
  for (const name of names) {
    if (platform === 'win32' && name.split('/').some((part) => RESERVED.test(part))) {
      fail(`expected names that Windows can have, found ${quoteName(name)}`);
    }
    if (!FOLDING.includes(platform)) continue;
    const folded = name.normalize().toLowerCase();
    const other = seen.get(folded);
    if (other !== undefined) {
      const found = `${quoteName(other)} and ${quoteName(name)}`;
      fail(`expected names that differ in more than case here, found ${found}`);
    }
    seen.set(folded, name);
  }
}
