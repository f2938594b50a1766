/** Reading the model: every byte of it, from the page cache and from the disk, and one tensor. */
import type { ReaderResult } from '../children/tensor-clock.js';
import {
  COLD_READERS,
  DIRECT,
  DIRECT_BLOCK,
  type Driver,
  ONE_TENSOR_READERS,
  OURS,
  OURS_PREFETCHED,
  OURS_STREAMED,
  PICKLE,
  PLAIN_MAPPING,
  PYTHON_MAPPING,
  READ_FILE,
  READERS,
  SAFE_OPEN_NUMPY,
  SAFE_OPEN_TORCH,
  TORCH_LOAD,
} from '../drivers.js';
import { cell, formatByteSize, formatDuration, formatRatio } from '../figures.js';
import { type CacheState, medianOf, type Plan, reasonsOf } from '../measure.js';
import { measureReaders, medianGrowth, selectAll, selectMiddle } from '../readers.js';
import type { Section } from '../report.js';
import { atLeast, atMost, beside, type Target } from '../targets.js';
import type { TrialContext } from '../trials.js';

/** Median figures of one driver in ms, memory in bytes. */
interface Figures {
  readonly open: number;
  readonly firstTensor: number;
  readonly handedOut: number;
  readonly everyByte: number;
  /** `everyByte` of every round. */
  readonly rounds: readonly number[];
  readonly anonymous: number;
  readonly fileBacked: number;
  readonly proportional: number;
}

/** The fastest and the slowest round. */
function spanOf(rounds: readonly number[]): string {
  if (rounds.length === 0) return '–';
  return [Math.min(...rounds), Math.max(...rounds)].map(formatDuration).join(' – ');
}

/** Fewer rounds do not show how much a disk's speed varies. */
const LEAST_COLD_ROUNDS = 5;

/** Readers that are compared within hundredths, which takes so many times the rounds. */
const CLOSE_READERS: readonly Driver[] = [PLAIN_MAPPING, OURS, PYTHON_MAPPING];
const CLOSE_FACTOR = 5;

/** Which readers read the model, from where, and how the chart of it is called. */
interface Reading {
  readonly drivers: readonly Driver[];
  readonly cache: CacheState;
  readonly rounds: Plan<ReaderResult>['rounds'];
  /** The file of the chart and its title. */
  readonly file: string;
  readonly title: string;
}

async function readAll(
  { equipment, path, signal }: TrialContext,
  { drivers, cache, rounds, file, title }: Reading,
  targetsOf: (figuresOf: (driver: Driver) => Figures) => Target[],
): Promise<Section> {
  const plan = { title: cache, cache, rounds };
  const rows = await measureReaders(drivers, plan, selectAll(path), equipment, signal);
  const figuresOf = (driver: Driver): Figures => ({
    open: medianOf(rows, driver, (result) => result.open),
    firstTensor: medianOf(rows, driver, (result) => result.firstTensor),
    handedOut: medianOf(rows, driver, (result) => result.handedOut),
    everyByte: medianOf(rows, driver, (result) => result.everyByte),
    rounds: rows.flatMap((row) =>
      row.driver === driver ? row.results.map((result) => result.everyByte) : [],
    ),
    anonymous: medianGrowth(rows, driver, 'anonymous'),
    fileBacked: medianGrowth(rows, driver, 'fileBacked'),
    proportional: medianGrowth(rows, driver, 'proportional'),
  });
  const measured = drivers.map((driver) => ({ driver, figures: figuresOf(driver) }));
  const fastest = Math.min(
    ...measured.map(({ figures }) => figures.everyByte).filter((time) => !Number.isNaN(time)),
  );
  const growth = (bytes: number): string => `${bytes < 0 ? '' : '+'}${formatByteSize(bytes)}`;
  return {
    title: `Every tensor handed out, then every byte read, ${cache}`,
    rows: [
      [
        'reader',
        'open',
        'first tensor',
        'all handed out',
        'every byte',
        'min – max',
        'of fastest',
        'RssAnon',
        'RssFile',
        'Pss',
      ],
      ...measured.map(({ driver, figures }) => [
        driver.name,
        cell(figures.open, formatDuration),
        cell(figures.firstTensor, formatDuration),
        cell(figures.handedOut, formatDuration),
        cell(figures.everyByte, formatDuration),
        spanOf(figures.rounds),
        cell(figures.everyByte / fastest, formatRatio),
        cell(figures.anonymous, growth),
        cell(figures.fileBacked, growth),
        cell(figures.proportional, growth),
      ]),
    ],
    notes: reasonsOf(rows),
    targets: targetsOf(figuresOf),
    chart: {
      file,
      title,
      series: ['open, all handed out', '… and every byte read'],
      bars: new Map(
        measured
          .filter(({ figures }) => !Number.isNaN(figures.everyByte))
          .map(({ driver, figures }) => [driver.name, [figures.handedOut, figures.everyByte]]),
      ),
      emphasis: OURS.name,
      format: formatDuration,
    },
  };
}

/** How much faster than another reader this package is, and has to be. */
function gainOf(what: string, ours: Figures, theirs: Figures, limit: number): Target {
  return atLeast(
    what,
    theirs.everyByte / ours.everyByte,
    limit,
    formatRatio,
    beside(formatDuration, { ours: ours.everyByte, theirs: theirs.everyByte }),
  );
}

/** Every byte read from the page cache, and what that costs in memory. */
export function everyByte(context: TrialContext): Promise<Section> {
  const reading: Reading = {
    drivers: READERS,
    cache: 'warm',
    rounds: (driver) =>
      CLOSE_READERS.includes(driver) ? CLOSE_FACTOR * context.rounds : context.rounds,
    file: 'every-byte.svg',
    title: 'A checkpoint in the page cache',
  };
  return readAll(context, reading, (figuresOf) => {
    const ours = figuresOf(OURS);
    const ratioTo = (what: string, driver: Driver, limit: number): Target => {
      const theirs = figuresOf(driver).everyByte;
      return atMost(
        `every byte, warm, against ${what}`,
        ours.everyByte / theirs,
        limit,
        formatRatio,
        beside(formatDuration, { ours: ours.everyByte, theirs }),
      );
    };
    const fasterThan = (driver: Driver): Target =>
      gainOf(`every byte, warm: faster than ${driver.name}`, ours, figuresOf(driver), 8);
    return [
      ratioTo("Python's bare mmap and json", PYTHON_MAPPING, 1.02),
      ratioTo('a plain mapping in C', PLAIN_MAPPING, 1.05),
      fasterThan(READ_FILE),
      fasterThan(TORCH_LOAD),
      fasterThan(PICKLE),
      atMost('every byte, warm: private memory', ours.anonymous, 1e6, formatByteSize),
    ];
  });
}

/** The least of this package's lead over a rival, of all rounds; NaN when one was not measured. */
function leastLead(ours: Figures, theirs: Figures): number {
  const leads = theirs.rounds.map((time, round) => time / (ours.rounds[round] ?? Number.NaN));
  return leads.length === 0 ? Number.NaN : Math.min(...leads);
}

/** The same from the disk. */
export function everyByteCold(context: TrialContext): Promise<Section> {
  const reading: Reading = {
    drivers: COLD_READERS,
    cache: 'cold',
    rounds: Math.max(context.rounds, LEAST_COLD_ROUNDS),
    file: 'cold.svg',
    title: 'A checkpoint on the disk',
  };
  return readAll(context, reading, (figuresOf) => {
    const prefetched = figuresOf(OURS_PREFETCHED);
    const streamed = figuresOf(OURS_STREAMED);
    const direct = Math.min(...[DIRECT, DIRECT_BLOCK].map((driver) => figuresOf(driver).everyByte));
    const torch = figuresOf(SAFE_OPEN_TORCH);
    const numpy = figuresOf(SAFE_OPEN_NUMPY);
    const ahead = (name: string, reference: Figures): Target =>
      atLeast(
        `every byte, cold, stream(): ahead of the reference with ${name} in every round`,
        leastLead(streamed, reference),
        1,
        formatRatio,
        `ours ${spanOf(streamed.rounds)}, theirs ${spanOf(reference.rounds)}`,
      );
    const handedOut = { ours: figuresOf(OURS).handedOut, theirs: torch.handedOut };
    return [
      atLeast(
        'every byte, cold, stream(): the speed against the faster O_DIRECT',
        direct / streamed.everyByte,
        0.85,
        formatRatio,
        beside(formatDuration, { ours: streamed.everyByte, O_DIRECT: direct }),
      ),
      ahead('torch', torch),
      ahead('numpy', numpy),
      gainOf(
        'every byte, cold, prefetch(): faster than the reference with torch',
        prefetched,
        torch,
        1.5,
      ),
      gainOf(
        'every byte, cold, prefetch(): faster than the reference with numpy',
        prefetched,
        numpy,
        1.5,
      ),
      atLeast(
        'cold, all handed out: faster than the reference with torch',
        handedOut.theirs / handedOut.ours,
        50,
        formatRatio,
        beside(formatDuration, handedOut),
      ),
    ];
  });
}

/** The file opened for one tensor in its middle, of which every byte is read. */
export async function oneTensor(context: TrialContext): Promise<Section> {
  const { equipment, path, rounds, signal } = context;
  const selection = selectMiddle(path);
  const measured = async (cache: CacheState) => {
    const plan = { title: `one tensor, ${cache}`, cache, rounds };
    const rows = await measureReaders(ONE_TENSOR_READERS, plan, selection, equipment, signal);
    const time = (driver: Driver): number => medianOf(rows, driver, (result) => result.everyByte);
    return { rows, time };
  };
  const warm = await measured('warm');
  const cold = await measured('cold');
  return {
    title: `One tensor of ${formatByteSize(Number(selection[2]))} in the middle: opened and every byte of it read`,
    rows: [
      ['reader', 'warm', 'of ours', 'cold', 'of ours'],
      ...ONE_TENSOR_READERS.map((driver) => [
        driver.name,
        ...[warm, cold].flatMap(({ time }) => [
          cell(time(driver), formatDuration),
          cell(time(driver) / time(OURS), formatRatio),
        ]),
      ]),
    ],
    notes: [...new Set([...reasonsOf(warm.rows), ...reasonsOf(cold.rows)])],
    targets: [],
  };
}
