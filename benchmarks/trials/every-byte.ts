import { formatByteSize, formatDuration } from '../byte-size.js';
import {
  type Driver,
  OURS,
  PICKLE,
  PLAIN_MAPPING,
  READ_FILE,
  READERS,
  TORCH_LOAD,
} from '../drivers.js';
import { measureReaders, medianGrowth, medianOf, type ReaderRow } from '../measure-readers.js';
import { atLeast, atMost, type Section } from '../report.js';
import { cell, type TrialContext } from './context.js';

/** Every byte read from the page cache, and what that costs in memory. */
export async function everyByteTrial(context: TrialContext): Promise<Section> {
  const { equipment, rounds: count, signal } = context;
  const rows = await measureReaders(READERS, equipment, { count, signal });
  const rowOf = (driver: Driver): ReaderRow =>
    rows.find((row) => row.driver === driver) as ReaderRow;
  const everyByte = (driver: Driver): number =>
    medianOf(rowOf(driver), (result) => result.everyByte);
  const ours = everyByte(OURS);
  const times = (value: number): string => `${value.toFixed(2)} ×`;
  const heading = [
    'reader',
    'open',
    'first tensor',
    'every byte',
    'ratio',
    'private',
    'file-backed',
  ];
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
    cell(everyByte(row.driver), formatDuration),
    cell(everyByte(row.driver) / ours, times),
    cell(medianGrowth(row, 'anonymous'), (bytes) => `+${formatByteSize(bytes)}`),
    cell(medianGrowth(row, 'fileBacked'), (bytes) => `+${formatByteSize(bytes)}`),
  ]);
  const factor = (driver: Driver): number => everyByte(driver) / ours;
  return {
    title: 'Every byte read, warm',
    rows: [heading, ...body],
    notes: rows.flatMap(({ driver, reason }) =>
      reason === undefined ? [] : [`${driver.name} was not measured: ${reason}`],
    ),
    targets: [
      atMost('every byte: at most 1.1 × the plain mapping', ours / everyByte(PLAIN_MAPPING), 1.1),
      atLeast('every byte: at least 5 × faster than fs.readFile', factor(READ_FILE), 5),
      atLeast('every byte: at least 5 × faster than torch.load', factor(TORCH_LOAD), 5),
      atLeast('every byte: at least 5 × faster than pickle', factor(PICKLE), 5),
      atMost(
        'every byte: private memory grows by less than 2 MB (in MB)',
        medianGrowth(rowOf(OURS), 'anonymous') / 1e6,
        2,
      ),
    ],
    measurements: rows.map(({ driver, results, reason }) => ({
      name: driver.name,
      results,
      reason,
    })),
  };
}
