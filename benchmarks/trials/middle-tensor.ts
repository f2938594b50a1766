import { formatByteSize, formatDuration } from '../byte-size.js';
import type { CacheState } from '../cache-state.js';
import { COLD_READERS, type Driver, OURS } from '../drivers.js';
import { measureReaders, medianOf, type ReaderRow, reasonsOf } from '../measure-readers.js';
import type { Section } from '../report.js';
import { cell, type TrialContext, times } from './context.js';

/** The file opened for one tensor in its middle, of which every byte is read. */
export async function middleTensorTrial(context: TrialContext): Promise<Section> {
  const { equipment, rounds: count, signal } = context;
  const selection = equipment.middle;
  const measure = (cache: CacheState): Promise<ReaderRow[]> =>
    measureReaders(COLD_READERS, equipment, { selection, cache, count, signal });
  const warm = await measure('warm');
  const cold = await measure('cold');
  const time = (rows: readonly ReaderRow[], driver: Driver): number => {
    const row = rows.find((candidate) => candidate.driver === driver);
    return row === undefined ? Number.NaN : medianOf(row, (result) => result.everyByte);
  };
  return {
    title: `One tensor of ${formatByteSize(selection.byteLength)} in the middle: opened and every byte of it read`,
    rows: [
      ['reader', 'warm', 'of ours', 'cold', 'of ours'],
      ...COLD_READERS.map((driver) => [
        driver.name,
        cell(time(warm, driver), formatDuration),
        cell(time(warm, driver) / time(warm, OURS), times),
        cell(time(cold, driver), formatDuration),
        cell(time(cold, driver) / time(cold, OURS), times),
      ]),
    ],
    notes: [...new Set([...reasonsOf(warm), ...reasonsOf(cold)])],
    targets: [],
    measurements: { warm, cold },
  };
}
