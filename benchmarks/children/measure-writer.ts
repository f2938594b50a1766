/** What the writers in Node share; `save.py` and `write_limit.c` do the same. */
import { setTimeout } from 'node:timers/promises';
import { watchPeak } from '../memory.js';

/** The line a writer prints. */
export interface WriterResult {
  /** Wall time in ms until the new file is in its place. */
  readonly elapsed: number;
  /** Resident memory at its highest, above what was there when the clock started; in bytes, if known. */
  readonly extraMemory: number | null;
}

/** Ends the process that holds memory for this one, if there is one: see `write_limit.c`. */
export async function endHolder(holder: string): Promise<void> {
  const pid = Number(holder);
  if (Number.isNaN(pid)) return;
  process.kill(pid, 'SIGTERM');
  for (;;) {
    try {
      process.kill(pid, 0);
    } catch {
      return;
    }
    await setTimeout(1);
  }
}

/** Runs the work under the clock and prints its line; a failure is one line on stderr. */
export async function measureWriter(
  holder: string,
  work: () => void | Promise<void>,
): Promise<void> {
  try {
    await endHolder(holder);
    const extraMemory = watchPeak();
    const start = performance.now();
    await work();
    const elapsed = performance.now() - start;
    const result: WriterResult = { elapsed, extraMemory: extraMemory() };
    console.log(JSON.stringify(result));
  } catch (error) {
    console.error(`Error: ${error instanceof Error ? error.message : error}`);
    process.exitCode = 1;
  }
}
