/** Calls on the open model: its buffers for the first time, and a tensor once more. */
import type { CallsResult } from '../children/calls.js';
import { type Driver, node, python, TORCH_REFERENCE } from '../drivers.js';
import { cell, formatDuration } from '../figures.js';
import { measure, medianOf, reasonsOf } from '../measure.js';
import type { Section } from '../report.js';
import { atMost, beside } from '../targets.js';
import type { TrialContext } from '../trials.js';

const OURS = node('safetensors-mmap', 'calls.js', '-');
const REFERENCE = python('Python safe_open, torch', 'calls.py', '-', TORCH_REFERENCE);
const DRIVERS: readonly Driver[] = [OURS, REFERENCE];

/** Short measurements are noisy. */
const OUR_ROUNDS = 40;
/** Passes through all tensors before the calls that count, and passes that count. */
const PASSES = 500;

export async function calls({ equipment, path, rounds, signal }: TrialContext): Promise<Section> {
  const plan = {
    title: 'calls',
    path,
    args: [`${PASSES}`],
    rounds: (driver: Driver): number => (driver === OURS ? OUR_ROUNDS : rounds),
  };
  const rows = await measure<CallsResult>(DRIVERS, plan, equipment, signal);
  const time = (driver: Driver, figure: keyof CallsResult): number =>
    medianOf(rows, driver, (result) => result[figure]);
  const reach = (what: string, figure: keyof CallsResult, limit: number) =>
    atMost(
      what,
      time(OURS, figure),
      limit,
      formatDuration,
      beside(formatDuration, { 'Python with torch': time(REFERENCE, figure) }),
    );
  return {
    title: 'Calls on the open model, in a fresh process',
    rows: [
      ['reader', 'first tensor with its memory', 'all 147', 'getTensor again'],
      ...DRIVERS.map((driver) => [
        driver.name,
        ...(['first', 'all', 'again'] as const).map((figure) =>
          cell(time(driver, figure), formatDuration),
        ),
      ]),
    ],
    notes: [
      ...reasonsOf(rows),
      `this package: medians of ${OUR_ROUNDS}`,
      `again: ${PASSES} passes through the names, after as many that do not count; this package gives the same tensor, Python a new one`,
    ],
    targets: [
      reach('first buffer of a process', 'first', 0.7),
      reach('all 147 buffers', 'all', 2),
      reach('getTensor again', 'again', 0.4e-3),
    ],
  };
}
