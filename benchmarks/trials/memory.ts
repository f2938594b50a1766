/** Memory of one process that holds all tensors with every byte read, and of four at once. */
import type { ReaderResult } from '../children/tensor-clock.js';
import { type Driver, MEMORY_READERS, OURS, READ_FILE, SAFE_OPEN_TORCH } from '../drivers.js';
import { cell, formatByteSize } from '../figures.js';
import { measure, medianOf, type Row, reasonsOf } from '../measure.js';
import { type Memory, readMemory } from '../process-memory.js';
import { selectAll } from '../readers.js';
import type { Section } from '../report.js';
import { type Command, startChild } from '../run-child.js';
import { atMost, beside } from '../targets.js';
import type { TrialContext } from '../trials.js';

const PROCESSES = 4;
const KINDS = ['anonymous', 'fileBacked', 'proportional'] as const;

/** What the tensors add to the memory of `count` processes together, in bytes. */
async function growthOf(command: Command, count: number, signal: AbortSignal): Promise<Memory> {
  const starts = Array.from({ length: count }, () => startChild<ReaderResult>(command, signal));
  const settled = await Promise.allSettled(starts);
  const children = settled.flatMap((child) => (child.status === 'fulfilled' ? child.value : []));
  try {
    // Fails when one of them has failed.
    await Promise.all(starts);
    const now = children.map(({ pid }) => readMemory(pid));
    const sum = (kind: keyof Memory): number =>
      children.reduce((total, child, index) => {
        const [before, after] = [child.line().before?.[kind], now[index]?.[kind]];
        return total + (after ?? Number.NaN) - (before ?? Number.NaN);
      }, 0);
    const [anonymous = 0, fileBacked = 0, proportional = 0] = KINDS.map(sum);
    return { anonymous, fileBacked, proportional };
  } finally {
    await Promise.all(children.map((child) => child.end()));
  }
}

export async function memory({ equipment, path, signal }: TrialContext): Promise<Section> {
  const args = [equipment.programs, ...selectAll(path)];
  const hold = (count: number): Promise<Row<Memory>[]> => {
    const run = (command: Command): Promise<Memory> => growthOf(command, count, signal);
    const plan = { title: `memory of ${count}`, args, cache: 'warm', rounds: 1, run } as const;
    return measure(MEMORY_READERS, plan, equipment, signal);
  };
  const alone = await hold(1);
  const together = await hold(PROCESSES);
  const figure = (rows: Row<Memory>[], driver: Driver, kind: keyof Memory): number =>
    medianOf(rows, driver, (growth) => growth[kind]);
  const rivals = (rows: Row<Memory>[]): string =>
    beside(formatByteSize, {
      'Python with torch': figure(rows, SAFE_OPEN_TORCH, 'anonymous'),
      'fs.readFile': figure(rows, READ_FILE, 'anonymous'),
    });
  return {
    title: `Memory with every byte read and held, one process and ${PROCESSES} at once`,
    rows: [
      ['reader', 'RssAnon', 'RssFile', 'Pss', '4: RssAnon', '4: RssFile', '4: Pss'],
      ...MEMORY_READERS.map((driver) => [
        driver.name,
        ...[alone, together].flatMap((rows) =>
          KINDS.map((kind) => cell(figure(rows, driver, kind), formatByteSize)),
        ),
      ]),
    ],
    notes: reasonsOf(together),
    targets: [
      atMost(
        'private memory with every byte read',
        figure(alone, OURS, 'anonymous'),
        1e6,
        formatByteSize,
        rivals(alone),
      ),
      atMost(
        'private memory of 4 processes together',
        figure(together, OURS, 'anonymous'),
        2e6,
        formatByteSize,
        rivals(together),
      ),
    ],
    chart: {
      file: 'memory.svg',
      title: 'Private memory (RssAnon) for a checkpoint',
      series: ['one process', 'four processes'],
      bars: new Map(
        together
          .filter(({ reason }) => reason === undefined)
          .map(({ driver }) => [
            driver.name,
            [alone, together].map((rows) => Math.max(0, figure(rows, driver, 'anonymous'))),
          ]),
      ),
      emphasis: OURS.name,
      format: formatByteSize,
    },
  };
}
