/** Reading the model: every byte of it, from the page cache and from the disk, and one tensor. */
import {
  COLD_READERS,
  DIRECT,
  type Driver,
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
import { type CacheState, medianOf, reasonsOf } from '../measure.js';
import { measureReaders, medianGrowth, selectAll, selectMiddle } from '../readers.js';
import { atLeast, atMost, type Section, type Target } from '../report.js';
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

async function readAll(
  { equipment, path, rounds, signal }: TrialContext,
  drivers: readonly Driver[],
  cache: CacheState,
  file: string,
  title: string,
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

/** Every byte read from the page cache, and what that costs in memory. */
export function everyByte(context: TrialContext): Promise<Section> {
  const title = 'A checkpoint in the page cache';
  return readAll(context, READERS, 'warm', 'every-byte.svg', title, (figuresOf) => {
    const ours = figuresOf(OURS);
    const factor = (driver: Driver): number => figuresOf(driver).everyByte / ours.everyByte;
    return [
      atMost('every byte, warm: at most 1.05 × the plain mapping', 1 / factor(PLAIN_MAPPING), 1.05),
      atMost(
        'every byte, warm: at most 1.02 × a mapping and JSON in Python',
        1 / factor(PYTHON_MAPPING),
        1.02,
      ),
      atLeast('every byte, warm: at least 8 × faster than fs.readFile', factor(READ_FILE), 8),
      atLeast('every byte, warm: at least 8 × faster than torch.load', factor(TORCH_LOAD), 8),
      atLeast('every byte, warm: at least 8 × faster than pickle', factor(PICKLE), 8),
      atMost(
        'every byte, warm: private memory grows by less than 1 MB (in MB)',
        ours.anonymous / 1e6,
        1,
      ),
    ];
  });
}

/** The same from the disk. */
export function everyByteCold(context: TrialContext): Promise<Section> {
  const title = 'A checkpoint on the disk';
  const rounds = Math.max(context.rounds, LEAST_COLD_ROUNDS);
  return readAll({ ...context, rounds }, COLD_READERS, 'cold', 'cold.svg', title, (figuresOf) => {
    const prefetched = figuresOf(OURS_PREFETCHED).everyByte;
    const streamed = figuresOf(OURS_STREAMED);
    return [
      atLeast(
        'every byte, cold with prefetch: at least 1.5 × faster than the reference with torch',
        figuresOf(SAFE_OPEN_TORCH).everyByte / prefetched,
        1.5,
      ),
      atLeast(
        'every byte, cold with prefetch: at least 1.5 × faster than the reference with numpy',
        figuresOf(SAFE_OPEN_NUMPY).everyByte / prefetched,
        1.5,
      ),
      atLeast(
        'every byte, cold with stream(): at least 0.85 of the speed of O_DIRECT',
        figuresOf(DIRECT).everyByte / streamed.everyByte,
        0.85,
      ),
      atLeast(
        'every byte, cold with stream(): in every round faster than the reference with torch (ratio)',
        Math.min(
          ...figuresOf(SAFE_OPEN_TORCH).rounds.map(
            (time, round) => time / (streamed.rounds[round] ?? Number.NaN),
          ),
        ),
        1,
      ),
      atLeast(
        'cold, all handed out: at least 50 × faster than the reference with torch',
        figuresOf(SAFE_OPEN_TORCH).handedOut / figuresOf(OURS).handedOut,
        50,
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
    const rows = await measureReaders(COLD_READERS, plan, selection, equipment, signal);
    const time = (driver: Driver): number => medianOf(rows, driver, (result) => result.everyByte);
    return { rows, time };
  };
  const warm = await measured('warm');
  const cold = await measured('cold');
  return {
    title: `One tensor of ${formatByteSize(Number(selection[2]))} in the middle: opened and every byte of it read`,
    rows: [
      ['reader', 'warm', 'of ours', 'cold', 'of ours'],
      ...COLD_READERS.map((driver) => [
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
