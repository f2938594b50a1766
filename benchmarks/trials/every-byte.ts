import { formatByteSize, formatDuration } from '../byte-size.js';
import type { CacheState } from '../cache-state.js';
import {
  COLD_READERS,
  type Driver,
  OURS,
  OURS_PREFETCHED,
  PICKLE,
  PLAIN_MAPPING,
  READ_FILE,
  READERS,
  REFERENCE_NUMPY,
  REFERENCE_TORCH,
  TORCH_LOAD,
} from '../drivers.js';
import {
  measureReaders,
  medianGrowth,
  medianOf,
  type ReaderRow,
  reasonsOf,
} from '../measure-readers.js';
import { atLeast, atMost, type Section, type Target } from '../report.js';
import { cell, type TrialContext, times } from './context.js';

const HEADING = [
  'reader',
  'open',
  'first tensor',
  'all handed out',
  'every byte',
  'of fastest',
  'RssAnon',
  'RssFile',
  'Pss',
];

function everyByte(row: ReaderRow): number {
  return medianOf(row, (result) => result.everyByte);
}

function handedOut(row: ReaderRow): number {
  return medianOf(row, (result) => result.handedOut);
}

function readerTable(rows: readonly ReaderRow[]): string[][] {
  const fastest = Math.min(...rows.map(everyByte).filter((time) => !Number.isNaN(time)));
  const growth = (bytes: number): string => `${bytes < 0 ? '' : '+'}${formatByteSize(bytes)}`;
  const body = rows.map((row) => [
    row.driver.name,
    cell(
      medianOf(row, (result) => result.open),
      formatDuration,
    ),
    cell(
      medianOf(row, (result) => result.firstTensor),
      formatDuration,
    ),
    cell(handedOut(row), formatDuration),
    cell(everyByte(row), formatDuration),
    cell(everyByte(row) / fastest, times),
    cell(medianGrowth(row, 'anonymous'), growth),
    cell(medianGrowth(row, 'fileBacked'), growth),
    cell(medianGrowth(row, 'proportional'), growth),
  ]);
  return [HEADING, ...body];
}

type RowOf = (driver: Driver) => ReaderRow;

function warmTargets(rowOf: RowOf): Target[] {
  const ours = everyByte(rowOf(OURS));
  const factor = (driver: Driver): number => everyByte(rowOf(driver)) / ours;
  return [
    atMost('every byte, warm: at most 1.05 × the plain mapping', 1 / factor(PLAIN_MAPPING), 1.05),
    atLeast('every byte, warm: at least 8 × faster than fs.readFile', factor(READ_FILE), 8),
    atLeast('every byte, warm: at least 8 × faster than torch.load', factor(TORCH_LOAD), 8),
    atLeast('every byte, warm: at least 8 × faster than pickle', factor(PICKLE), 8),
    atMost(
      'every byte, warm: private memory grows by less than 1 MB (in MB)',
      medianGrowth(rowOf(OURS), 'anonymous') / 1e6,
      1,
    ),
  ];
}

function coldTargets(rowOf: RowOf): Target[] {
  const prefetched = everyByte(rowOf(OURS_PREFETCHED));
  return [
    atLeast(
      'every byte, cold with prefetch: at least 1.5 × faster than the reference with torch',
      everyByte(rowOf(REFERENCE_TORCH)) / prefetched,
      1.5,
    ),
    atLeast(
      'every byte, cold with prefetch: at least 1.5 × faster than the reference with numpy',
      everyByte(rowOf(REFERENCE_NUMPY)) / prefetched,
      1.5,
    ),
    atLeast(
      'cold, all handed out: at least 50 × faster than the reference with torch',
      handedOut(rowOf(REFERENCE_TORCH)) / handedOut(rowOf(OURS)),
      50,
    ),
  ];
}

async function readAll(
  context: TrialContext,
  drivers: readonly Driver[],
  cache: CacheState,
  targets: (rowOf: RowOf) => Target[],
): Promise<Section> {
  const { equipment, rounds: count, signal } = context;
  const plan = { selection: equipment.all, cache, count, signal };
  const rows = await measureReaders(drivers, equipment, plan);
  const rowOf: RowOf = (driver) => rows.find((row) => row.driver === driver) as ReaderRow;
  return {
    title: `Every tensor handed out, then every byte read, ${cache}`,
    rows: readerTable(rows),
    notes: reasonsOf(rows),
    targets: targets(rowOf),
    bars: rows
      .filter(({ reason }) => reason === undefined)
      .map((row) => ({
        label: row.driver.name,
        values: { handedOut: handedOut(row), everyByte: everyByte(row) },
      })),
    measurements: rows.map(({ driver, results, reason }) => ({
      name: driver.name,
      results,
      reason,
    })),
  };
}

/** Every byte read from the page cache, and what that costs in memory. */
export function everyByteTrial(context: TrialContext): Promise<Section> {
  return readAll(context, READERS, 'warm', warmTargets);
}

/** The same from the disk. */
export function coldTrial(context: TrialContext): Promise<Section> {
  return readAll(context, COLD_READERS, 'cold', coldTargets);
}
