import { formatDuration } from '../byte-size.js';
import { showProgress } from '../command-line.js';
import { prepareDriver } from '../driver-command.js';
import { type Driver, OUR_START, STARTERS, TORCH_START } from '../drivers.js';
import { median } from '../median.js';
import { atLeast, type Section } from '../report.js';
import { ChildError, timeToFirstLine } from '../run-child.js';
import { cell, type TrialContext } from './context.js';

/** From starting a process until it has printed the first byte of the first tensor. */
export async function processStartTrial(context: TrialContext): Promise<Section> {
  const { equipment, rounds, signal } = context;
  const task = { selection: equipment.all, hold: false };
  const drivers = STARTERS.map((driver) => {
    const prepared = prepareDriver(driver, equipment, task);
    const command = typeof prepared === 'string' ? prepared : prepared.command;
    return { driver, command, times: [] as number[] };
  });
  // Round 0 brings the programs themselves into the page cache and is not counted.
  for (let round = 0; round <= rounds; round++) {
    for (const row of drivers) {
      if (typeof row.command === 'string') continue;
      showProgress(`process start: ${row.driver.name}, round ${round} of ${rounds}`);
      try {
        const elapsed = await timeToFirstLine(row.command, signal);
        if (round > 0) row.times.push(elapsed);
      } catch (error) {
        if (!(error instanceof ChildError)) throw error;
        row.command = error.message;
      }
    }
  }
  const time = (driver: Driver): number =>
    median(drivers.find((row) => row.driver === driver)?.times ?? []);
  const ours = time(OUR_START);
  return {
    title: "Process start to the first tensor's first byte",
    rows: [
      ['program', 'wall time', 'ratio'],
      ...drivers.map(({ driver }) => [
        driver.name,
        cell(time(driver), formatDuration),
        cell(time(driver) / ours, (value) => `${value.toFixed(1)} ×`),
      ]),
    ],
    notes: drivers.flatMap(({ driver, command }) =>
      typeof command === 'string' ? [`${driver.name} was not measured: ${command}`] : [],
    ),
    targets: [
      atLeast(
        'process start: at least 10 × faster than Python with torch',
        time(TORCH_START) / ours,
        10,
      ),
    ],
    measurements: drivers.map(({ driver, times }) => ({ name: driver.name, times })),
  };
}
