import { join } from 'node:path';
import { formatDuration } from '../byte-size.js';
import type { OpenCallResult } from '../children/open-call.js';
import { showProgress } from '../command-line.js';
import { median } from '../median.js';
import { atMost, type Section } from '../report.js';
import { runChild } from '../run-child.js';
import type { TrialContext } from './context.js';

const SCRIPT = join(import.meta.dirname, '../children/open-call.js');

/** The open call alone. */
export async function openCallTrial(context: TrialContext): Promise<Section> {
  const { path, rounds, signal } = context;
  const command = { file: process.execPath, args: [SCRIPT, path] };
  const results: OpenCallResult[] = [];
  for (let round = 1; round <= rounds; round++) {
    showProgress(`open call, round ${round} of ${rounds}`);
    results.push(await runChild<OpenCallResult>(command, signal));
  }
  const first = median(results.map((result) => result.first));
  const repeated = median(results.map((result) => result.repeated));
  return {
    title: 'The open call (147 tensors)',
    rows: [
      ['call', 'time'],
      ['first in a fresh process', formatDuration(first)],
      ['repeated 1000 times, median', formatDuration(repeated)],
    ],
    notes: [],
    targets: [
      atMost('open call: at most 4 ms in a fresh process (in ms)', first, 4),
      atMost('open call: at most 0.15 ms repeated (in ms)', repeated, 0.15),
    ],
    measurements: results,
  };
}
