/** Files brought into the page cache or dropped from it, and what the kernel says about them. */
import { runChild } from './run-child.js';
import type { TouchLoop } from './touch-loop.js';

/** Whether a file's pages are in memory before the clock starts; or left as they happen to be. */
export type CacheState = 'warm' | 'cold' | 'unknown';

/** A page or two may come back by the very call that asks. */
const COLD_SHARE = 0.01;
/** Some file systems never tell of the last page. */
const WARM_SHARE = 0.999;

/** Bytes of files in the page cache, and of the files. */
interface Residency {
  readonly resident: number;
  readonly total: number;
}

/**
 * Brings the files into a state, and has `mincore` confirm it.
 *
 * @returns a line that says why the files are not in that state; undefined when they are.
 */
export async function bringInto(
  state: CacheState,
  files: readonly string[],
  loop: TouchLoop | string,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (state === 'unknown') return undefined;
  if (typeof loop === 'string') return state === 'warm' ? undefined : 'needs a C compiler';
  const run = (task: string): Promise<Residency> =>
    runChild<Residency>({ file: loop.pageCache, args: [task, ...files] }, signal);
  const { resident, total } = await run(state === 'warm' ? 'warm' : 'drop');
  const share = total === 0 ? 1 : resident / total;
  if (state === 'warm') {
    return share >= WARM_SHARE
      ? undefined
      : `only ${Math.round(share * 100)} % stay in the page cache`;
  }
  return share <= COLD_SHARE
    ? undefined
    : `${Math.round(share * 100)} % stay in the page cache all the same`;
}
