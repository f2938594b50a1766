/** From starting a process until it has printed the first byte of the first tensor. */
import { type Driver, OUR_START, STARTERS, TORCH_START } from '../drivers.js';
import { cell, formatDuration } from '../figures.js';
import { measure, medianOf, reasonsOf } from '../measure.js';
import { atLeast, type Section } from '../report.js';
import { type Command, startChild } from '../run-child.js';
import type { TrialContext } from '../trials.js';

export async function processStart(context: TrialContext): Promise<Section> {
  const { equipment, rounds, signal } = context;
  const run = async (command: Command): Promise<number> => {
    const child = await startChild(command, signal);
    await child.end();
    return child.firstLineAfter;
  };
  const plan = { title: 'process start', run };
  // Brings the programs themselves into the page cache; not counted.
  await measure(STARTERS, { ...plan, rounds: 1 }, equipment, signal);
  const rows = await measure(STARTERS, { ...plan, rounds }, equipment, signal);
  const time = (driver: Driver): number => medianOf(rows, driver, (elapsed) => elapsed);
  const ours = time(OUR_START);
  return {
    title: "Process start to the first tensor's first byte",
    rows: [
      ['program', 'wall time', 'ratio'],
      ...STARTERS.map((driver) => [
        driver.name,
        cell(time(driver), formatDuration),
        cell(time(driver) / ours, (ratio) => `${ratio.toFixed(1)} ×`),
      ]),
    ],
    notes: reasonsOf(rows),
    targets: [
      atLeast(
        'process start: at least 10 × faster than Python with torch',
        time(TORCH_START) / ours,
        10,
      ),
    ],
  };
}
