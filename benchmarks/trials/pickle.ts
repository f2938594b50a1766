/** A checkpoint of torch in the page cache: read, and converted to safetensors. */
import type { ReaderResult } from '../children/tensor-clock.js';
import { type Driver, node, OURS, python, TORCH_LOAD, TORCH_MAPPED } from '../drivers.js';
import { cell, formatByteSize, formatDuration, formatRatio } from '../figures.js';
import { PICKLE_READERS, TORCH_CHECKPOINT } from '../formats.js';
import { measure, medianOf, reasonsOf } from '../measure.js';
import { measureReaders, medianGrowth, selectAll } from '../readers.js';
import type { Section } from '../report.js';
import { type Command, startChild } from '../run-child.js';
import { atLeast, atMost, beside, type Target } from '../targets.js';
import type { TrialContext } from '../trials.js';
import { convertPickle } from './convert-pickle.js';

/** This package reading the same weights from a safetensors file: what a checkpoint of torch can reach. */
const READERS: readonly Driver[] = [
  OURS,
  TORCH_CHECKPOINT,
  TORCH_LOAD,
  TORCH_MAPPED,
  ...PICKLE_READERS,
];

const OUR_START = node('openTorchCheckpoint', 'first-torch-byte.js', '-', [], 'torch');
const MAPPED_START = python(
  'torch.load(mmap=True)',
  'first_byte.py',
  'torch-mapped',
  ['torch'],
  'torch',
);

/** Readers that are compared within hundredths, and processes that are short, have more rounds. */
const CLOSE_FACTOR = 5;

/** Times of whole processes, from their start to the first byte of the first tensor. */
async function startProcesses(context: TrialContext): Promise<Map<Driver, number>> {
  const { equipment, rounds, signal } = context;
  const drivers = [OUR_START, MAPPED_START];
  const run = async (command: Command): Promise<number> => {
    const child = await startChild(command, signal);
    await child.end();
    return child.firstLineAfter;
  };
  const plan = { title: 'process start', cache: 'warm', run } as const;
  // Brings the programs themselves into the page cache; not counted.
  await measure(drivers, { ...plan, rounds: 1 }, equipment, signal);
  const rows = await measure<number>(
    drivers,
    { ...plan, rounds: CLOSE_FACTOR * rounds },
    equipment,
    signal,
  );
  const time = (driver: Driver): number => medianOf(rows, driver, (elapsed) => elapsed);
  return new Map([
    [TORCH_CHECKPOINT, time(OUR_START)],
    [TORCH_MAPPED, time(MAPPED_START)],
  ]);
}

async function readPickle(context: TrialContext): Promise<Section> {
  const { equipment, path, rounds, signal } = context;
  const close = [OURS, TORCH_CHECKPOINT, TORCH_MAPPED];
  const plan = {
    title: 'a checkpoint of torch',
    cache: 'warm',
    rounds: (driver: Driver) => (close.includes(driver) ? CLOSE_FACTOR * rounds : rounds),
  } as const;
  const rows = await measureReaders(READERS, plan, selectAll(path), equipment, signal);
  const starts = await startProcesses(context);
  const time = (driver: Driver, figure: 'open' | 'firstTensor' | 'everyByte'): number =>
    medianOf(rows, driver, (result: ReaderResult) => result[figure]);
  const started = (driver: Driver): number => starts.get(driver) ?? Number.NaN;
  const everyByte = (driver: Driver): number => time(driver, 'everyByte');
  const [ours, loaded, mapped] = [TORCH_CHECKPOINT, TORCH_LOAD, TORCH_MAPPED].map(everyByte) as [
    number,
    number,
    number,
  ];
  const faster = (what: string, [mine, theirs]: readonly [number, number], limit: number): Target =>
    atLeast(
      what,
      theirs / mine,
      limit,
      formatRatio,
      beside(formatDuration, { ours: mine, theirs }),
    );
  return {
    title: 'A checkpoint of torch in the page cache: opened, and every byte read',
    rows: [
      [
        'reader',
        'open',
        'first tensor',
        'every byte',
        'of ours',
        'RssAnon',
        'process to first byte',
      ],
      ...READERS.map((driver) => [
        driver === OURS ? `${driver.name}, the same as safetensors` : driver.name,
        cell(time(driver, 'open'), formatDuration),
        cell(time(driver, 'firstTensor'), formatDuration),
        cell(everyByte(driver), formatDuration),
        cell(everyByte(driver) / ours, formatRatio),
        cell(medianGrowth(rows, driver, 'anonymous'), formatByteSize),
        cell(started(driver), formatDuration),
      ]),
    ],
    notes: reasonsOf(rows),
    targets: [
      faster('checkpoint of torch, every byte: faster than torch.load', [ours, loaded], 5),
      atMost(
        'checkpoint of torch, every byte, against torch.load(mmap=True)',
        ours / mapped,
        1,
        formatRatio,
        beside(formatDuration, { ours, theirs: mapped }),
      ),
      faster(
        'checkpoint of torch, process start to the first byte: faster than torch.load(mmap=True)',
        [started(TORCH_CHECKPOINT), started(TORCH_MAPPED)],
        12,
      ),
    ],
  };
}

export async function pickle(context: TrialContext): Promise<Section[]> {
  return [await readPickle(context), await convertPickle(context)];
}
