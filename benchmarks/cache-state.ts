/** Files brought into the page cache or dropped from it, and what the kernel says about them. */
import { runChild } from './run-child.js';
import type { TouchLoop } from './touch-loop.js';

/** Whether a file's pages are in memory before the clock starts; or left as they happen to be. */
export type CacheState = 'warm' | 'cold' | 'unknown';

/** A page or two may come back by the very call that asks. */
const COLD_SHARE = 0.01;
/** A system short of memory takes pages back while others are read. */
const WARM_SHARE = 0.99;
/** Pages that are read a second time are kept rather than those of other files. */
const WARM_ATTEMPTS = 4;

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
  const run = (task: 'warm' | 'drop'): Promise<Residency> =>
    runChild<Residency>({ file: loop.pageCache, args: [task, ...files] }, signal);
  const shareAfter = async (task: 'warm' | 'drop'): Promise<number> => {
    const { resident, total } = await run(task);
    return total === 0 ? 1 : resident / total;
  };
  const percent = (share: number): string => `${(share * 100).toFixed(1)} %`;
  if (state === 'cold') {
    const share = await shareAfter('drop');
    return share <= COLD_SHARE ? undefined : `${percent(share)} stay in the page cache`;
  }
  let share = 0;
  for (let attempt = 0; attempt < WARM_ATTEMPTS && share < WARM_SHARE; attempt++) {
    share = await shareAfter('warm');
  }
  return share >= WARM_SHARE ? undefined : `only ${percent(share)} stay in the page cache`;
}
