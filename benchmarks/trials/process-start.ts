/** From starting a process until it has printed the first byte of the first tensor. */
import {
  type Driver,
  NODE_START,
  OUR_IMPORT,
  OUR_START,
  PYTHON_STARTERS,
  TORCH_START,
} from '../drivers.js';
import { cell, formatDuration, formatRatio, median } from '../figures.js';
import { measure, medianOf, type Row, reasonsOf } from '../measure.js';
import type { Section } from '../report.js';
import { type Command, startChild } from '../run-child.js';
import { atLeast, atMost, beside } from '../targets.js';
import type { TrialContext } from '../trials.js';

/** Processes of Node are short, and so are the differences between them. */
const NODE_ROUNDS = 40;

export async function processStart(context: TrialContext): Promise<Section> {
  const { equipment, rounds, signal } = context;
  const run = async (command: Command): Promise<number> => {
    const child = await startChild(command, signal);
    await child.end();
    return child.firstLineAfter;
  };
  const start = (drivers: readonly Driver[], rounds: number): Promise<Row<number>[]> =>
    measure(drivers, { title: 'process start', run, rounds }, equipment, signal);
  const nodeStarters = [NODE_START, OUR_START];
  // Brings the programs themselves into the page cache; not counted.
  await start([...nodeStarters, ...PYTHON_STARTERS], 1);
  const [bare, ours] = (await start(nodeStarters, NODE_ROUNDS)) as [Row<number>, Row<number>];
  const pairs = { title: 'import', rounds: NODE_ROUNDS };
  const imports = await measure<number>([OUR_IMPORT], pairs, equipment, signal);
  const rows = [bare, ours, ...imports, ...(await start(PYTHON_STARTERS, rounds))];
  const time = (driver: Driver): number => medianOf(rows, driver, (elapsed) => elapsed);
  const excess = ours.results.map((elapsed, i) => elapsed - (bare.results[i] ?? Number.NaN));
  return {
    title: "Process start to the first tensor's first byte",
    rows: [
      ['program', 'wall time', 'ratio'],
      ...rows.map(({ driver }) => [
        driver.name,
        cell(time(driver), formatDuration),
        cell(time(driver) / time(OUR_START), (ratio) => `${ratio.toFixed(1)} ×`),
      ]),
    ],
    notes: [`programs of Node: medians of ${NODE_ROUNDS}`, ...reasonsOf(rows)],
    targets: [
      atMost(
        'process start to the first byte, above Node alone',
        median(excess),
        12,
        formatDuration,
        beside(formatDuration, { 'Node alone': time(NODE_START) }),
      ),
      atMost('import', time(OUR_IMPORT), 10, formatDuration),
      atLeast(
        'process start to the first byte: faster than Python with torch',
        time(TORCH_START) / time(OUR_START),
        10,
        formatRatio,
        beside(formatDuration, { ours: time(OUR_START), theirs: time(TORCH_START) }),
      ),
    ],
  };
}
