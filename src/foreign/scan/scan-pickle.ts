/** `scanPickle`. Its code loads on the first call. */

import type { PathLike } from '../../platform/io/paths.js';
import type { ScanOptions } from './scan-file.js';
import type { ScanReport } from './scan-report.js';

/**
 * Reports what loading a file with pickles would import: every class and function that it names, unknown contents,
 * and a verdict. Builds and runs nothing. Also reads files that `open` refuses: pickles of all
 * protocols, archives with contradictions.
 *
 * The verdict is `safe` or `no-pickle` only if every byte of the file is accounted for.
 *
 * @throws Error Node's own `ENOENT`, `EACCES` and the like; SafetensorsError
 *   `SAFETENSORS_NOT_A_REGULAR_FILE`
 *
 * @example
 * ```ts
 * const { verdict, globals } = await scanPickle('stranger.pt');
 * console.log(verdict); // → suspicious
 * for (const { module, name, kind } of globals) console.log(`${module}.${name}`, kind);
 * // → posix.system hostile
 * ```
 */
export async function scanPickle(path: PathLike, options?: ScanOptions): Promise<ScanReport> {
  const { scanPickle: scan } = await import('./scan-file.js');
  return scan(path, options);
}
