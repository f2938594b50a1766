/**
 * Measures how late timers fire, first while nothing happens and then while a file is prefetched
 * that is not in the page cache. Argument: FILE
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { setTimeout } from 'node:timers/promises';
import { safeOpen } from 'safetensors-mmap';

/** Percentiles of the time between two firings of a timer of 1 ms, in ms. */
interface LoopDelay {
  readonly median: number;
  readonly p99: number;
  readonly max: number;
}

/** The line this child prints. */
export interface LoopDelayResult {
  readonly idle: LoopDelay;
  readonly busy: LoopDelay;
  /** Share of the file that was in the page cache before; null when the system does not tell. */
  readonly residentBefore: number | null;
  readonly residentAfter: number | null;
  /** Wall time of the prefetch in ms. */
  readonly elapsed: number;
  /** Page faults that waited for the disk while a byte of every page was read afterwards. */
  readonly majorFaults: number;
  readonly byteLength: number;
}

/** Long enough for a thousand firings and more. */
const IDLE_MS = 2000;

async function delayDuring(work: () => Promise<unknown>): Promise<LoopDelay> {
  const histogram = monitorEventLoopDelay({ resolution: 1 });
  histogram.enable();
  await work();
  histogram.disable();
  const [median = 0, p99 = 0] = [50, 99].map((share) => histogram.percentile(share) / 1e6);
  return { median, p99, max: histogram.max / 1e6 };
}

const [path = ''] = process.argv.slice(2);
const file = safeOpen(path);
const share = (): number | null => {
  const resident = file.residency();
  return resident === null ? null : resident / file.byteLength;
};
const idle = await delayDuring(() => setTimeout(IDLE_MS));
const residentBefore = share();
const start = performance.now();
const busy = await delayDuring(() => file.prefetch());
const elapsed = performance.now() - start;
const residentAfter = share();

const faultsBefore = process.resourceUsage().majorPageFault;
// Backwards: what is read forwards, the system has mostly read ahead.
for (const name of file.offsetKeys().reverse()) {
  const { bytes } = file.getTensor(name);
  for (let position = bytes.length - 1; position >= 0; position -= 4096) bytes[position];
}
const majorFaults = process.resourceUsage().majorPageFault - faultsBefore;
const { byteLength } = file;
const result: LoopDelayResult = {
  idle,
  busy,
  residentBefore,
  residentAfter,
  elapsed,
  majorFaults,
  byteLength,
};
console.log(JSON.stringify(result));
