import { join } from 'node:path';
import { formatByteSize, formatDuration } from '../byte-size.js';
import { bringInto } from '../cache-state.js';
import type { LoopDelayResult } from '../children/loop-delay.js';
import { showProgress } from '../command-line.js';
import { median } from '../median.js';
import { atMost, type Section } from '../report.js';
import { runChild } from '../run-child.js';
import type { TrialContext } from './context.js';

const SCRIPT = join(import.meta.dirname, '../children/loop-delay.js');

/** Prefetching a cold file: what it does to the event loop, and to the reading afterwards. */
export async function prefetchTrial(context: TrialContext): Promise<Section> {
  const { equipment, path, rounds, signal } = context;
  const command = { file: process.execPath, args: [SCRIPT, path] };
  const results: LoopDelayResult[] = [];
  const warm = new Set<string>();
  for (let round = 1; round <= rounds; round++) {
    showProgress(`prefetch, round ${round} of ${rounds}`);
    const reason = await bringInto('cold', [path], equipment.loop, signal);
    if (reason !== undefined) warm.add(reason);
    results.push(await runChild<LoopDelayResult>(command, signal));
  }
  const over = (figure: (result: LoopDelayResult) => number): number => median(results.map(figure));
  const delay = (when: 'idle' | 'busy', figure: 'median' | 'p99' | 'max'): string =>
    formatDuration(over((result) => result[when][figure]));
  const elapsed = over((result) => result.elapsed);
  const byteLength = over((result) => result.byteLength);
  const notes = [
    `prefetched in ${formatDuration(elapsed)}, ${formatByteSize((1000 * byteLength) / elapsed)}/s`,
  ];
  notes.push(...Array.from(warm, (reason) => `not cold: ${reason}`));
  return {
    title: `Event loop while a cold file of ${formatByteSize(byteLength)} is prefetched`,
    rows: [
      ['timer of 1 ms', 'median', '99th percentile', 'longest'],
      ['idle', delay('idle', 'median'), delay('idle', 'p99'), delay('idle', 'max')],
      ['prefetching', delay('busy', 'median'), delay('busy', 'p99'), delay('busy', 'max')],
    ],
    notes,
    targets: [
      atMost(
        'prefetch of a cold file: 99th percentile of the delay at most 10 ms above idle, in ms',
        over((result) => result.busy.p99 - result.idle.p99),
        10,
      ),
      atMost(
        'reading after a prefetch: no major page fault',
        Math.max(...results.map((result) => result.majorFaults)),
        0,
      ),
    ],
    measurements: results,
  };
}
