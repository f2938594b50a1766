/** Measures the cost of an input, and fails when it exceeds the budget. */
import process from 'node:process';
import { getHeapStatistics } from 'node:v8';
import { type Budget, Problem } from './target.js';

/** How often a slow input is tried again: a busy machine is no fault of the input. */
const TRIES = 2;

function heldBytes(): number {
  const { used_heap_size, external_memory } = getHeapStatistics();
  return used_heap_size + external_memory;
}

function usedMilliseconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
}

/** Filling memory takes longer than this, in milliseconds; asking for the resident memory is slow too. */
const QUICK_MILLISECONDS = 2;

/** The largest resident memory of the process so far. */
let peakBytes = 0;

/** Its growth since the last call. */
export function peakGrowth(): number {
  const before = peakBytes;
  peakBytes = 1024 * process.resourceUsage().maxRSS;
  return peakBytes - before;
}

/** Runs the work, and throws when it costs more than the budget. */
export async function within(
  { milliseconds, byteLength }: Budget,
  work: () => string | Promise<string>,
): Promise<string> {
  for (let left = TRIES; ; left--) {
    const held = heldBytes();
    // Reading the clock is cheap; processor time is read only when that was too long.
    const usedBefore = left < TRIES ? usedMilliseconds() : undefined;
    const began = performance.now();
    const outcome = work();
    const come = typeof outcome === 'string' ? outcome : await outcome;
    const waited = performance.now() - began;
    const resident = waited > QUICK_MILLISECONDS ? peakGrowth() : 0;
    const grown = Math.max(heldBytes() - held, resident);
    if (grown > byteLength) throw new Problem(`took ${grown} bytes of memory`);
    const took = usedBefore === undefined ? waited : usedMilliseconds() - usedBefore;
    if (took <= milliseconds) return come;
    if (left === 0) throw new Problem(`took ${Math.round(took)} ms of the processor`);
  }
}
