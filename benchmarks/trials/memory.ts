import { formatByteSize } from '../byte-size.js';
import { bringInto } from '../cache-state.js';
import type { ReaderResult } from '../children/measure-reader.js';
import { showProgress } from '../command-line.js';
import { prepareDriver } from '../driver-command.js';
import { type Driver, MEMORY_READERS, OURS } from '../drivers.js';
import type { Equipment } from '../equipment.js';
import { type Memory, readMemory } from '../memory.js';
import { atMost, type Section } from '../report.js';
import { ChildError, type HeldChild, holdChild } from '../run-child.js';
import { cell, type TrialContext } from './context.js';

const PROCESSES = 4;

/** What the tensors add to the memory of all processes together, in bytes. */
type Growth = Memory;

const KINDS = ['anonymous', 'fileBacked', 'proportional'] as const;

/** Their memory while all of them hold all tensors, less what each had before it opened the file. */
function growthOf(children: readonly HeldChild<ReaderResult>[]): Growth {
  const now = children.map(({ pid }) => readMemory(pid));
  const sum = (kind: keyof Memory): number =>
    children.reduce((total, { result }, index) => {
      const [before, after] = [result.before?.[kind], now[index]?.[kind]];
      return total + (after ?? Number.NaN) - (before ?? Number.NaN);
    }, 0);
  const [anonymous = 0, fileBacked = 0, proportional = 0] = KINDS.map(sum);
  return { anonymous, fileBacked, proportional };
}

async function holdTogether(
  driver: Driver,
  equipment: Equipment,
  count: number,
  signal: AbortSignal,
): Promise<Growth | string> {
  const prepared = prepareDriver(driver, equipment, { selection: equipment.all, hold: true });
  if (typeof prepared === 'string') return prepared;
  const cold = await bringInto('warm', prepared.files, equipment.loop, signal);
  if (cold !== undefined) return cold;
  const children: HeldChild<ReaderResult>[] = [];
  try {
    const starts = Array.from({ length: count }, () =>
      holdChild<ReaderResult>(prepared.command, signal),
    );
    for (const started of await Promise.allSettled(starts)) {
      if (started.status === 'rejected') throw started.reason;
      children.push(started.value);
    }
    return growthOf(children);
  } catch (error) {
    if (error instanceof ChildError) return error.message;
    throw error;
  } finally {
    await Promise.all(children.map((child) => child.release()));
  }
}

/** Memory of one process that holds all tensors with every byte read, and of four at once. */
export async function memoryTrial(context: TrialContext): Promise<Section> {
  const { equipment, signal } = context;
  const rows: { driver: Driver; alone: Growth | string; together: Growth | string }[] = [];
  for (const driver of MEMORY_READERS) {
    showProgress(`memory: ${driver.name}`);
    const alone = await holdTogether(driver, equipment, 1, signal);
    const together = await holdTogether(driver, equipment, PROCESSES, signal);
    rows.push({ driver, alone, together });
  }
  const figure = (growth: Growth | string, kind: keyof Memory): number =>
    typeof growth === 'string' ? Number.NaN : growth[kind];
  const ours = rows.find(({ driver }) => driver === OURS);
  const ourPrivate = (growth: Growth | string | undefined): number =>
    growth === undefined ? Number.NaN : figure(growth, 'anonymous') / 1e6;
  return {
    title: `Memory with every byte read and held, one process and ${PROCESSES} at once`,
    rows: [
      ['reader', 'RssAnon', 'RssFile', 'Pss', '4: RssAnon', '4: RssFile', '4: Pss'],
      ...rows.map(({ driver, alone, together }) => [
        driver.name,
        ...[alone, together].flatMap((growth) =>
          KINDS.map((kind) => cell(figure(growth, kind), formatByteSize)),
        ),
      ]),
    ],
    notes: rows.flatMap(({ driver, together }) =>
      typeof together === 'string' ? [`${driver.name} was not measured: ${together}`] : [],
    ),
    targets: [
      atMost('private memory: below 1 MB (in MB)', ourPrivate(ours?.alone), 1),
      atMost(
        'private memory of 4 processes: below 2 MB together (in MB)',
        ourPrivate(ours?.together),
        2,
      ),
    ],
    bars: rows
      .filter(({ together }) => typeof together !== 'string')
      .map(({ driver, alone, together }) => ({
        label: driver.name,
        values: {
          alone: Math.max(0, figure(alone, 'anonymous')),
          together: Math.max(0, figure(together, 'anonymous')),
        },
      })),
    measurements: rows.map(({ driver, alone, together }) => ({
      name: driver.name,
      alone,
      together,
    })),
  };
}
