/** Runs readers in fresh processes, in turns, and takes medians. */
import type { ReaderResult } from './children/measure-reader.js';
import { showProgress } from './command-line.js';
import { type Driver, driverCommand, type Equipment } from './drivers.js';
import { median } from './median.js';
import type { Memory } from './memory.js';
import { ChildError, runChild } from './run-child.js';

/** Results of one driver: of every round, or the reason why there are none. */
export interface ReaderRow {
  readonly driver: Driver;
  readonly results: readonly ReaderResult[];
  readonly reason?: string;
}

/** Two readers of the same weights saw different bytes: one of them is broken. */
export class ChecksumError extends Error {}

/** How often, and until when. */
export interface Rounds {
  readonly count: number;
  readonly signal: AbortSignal;
}

/**
 * Runs every driver once per round, so that a slow moment of the machine does not hit one alone.
 *
 * @throws ChecksumError when two of them disagree about the bytes.
 */
export async function measureReaders(
  drivers: readonly Driver[],
  equipment: Equipment,
  { count, signal }: Rounds,
): Promise<ReaderRow[]> {
  const rows = drivers.map((driver) => ({
    driver,
    command: driverCommand(driver, equipment),
    results: [] as ReaderResult[],
  }));
  for (let round = 1; round <= count; round++) {
    for (const row of rows) {
      if (typeof row.command === 'string') continue;
      showProgress(`every byte: ${row.driver.name}, round ${round} of ${count}`);
      try {
        row.results.push(await runChild<ReaderResult>(row.command, signal));
      } catch (error) {
        if (!(error instanceof ChildError)) throw error;
        row.command = error.message;
      }
    }
  }
  assertSameBytes(rows);
  return rows.map(({ driver, command, results }) =>
    typeof command === 'string' ? { driver, results: [], reason: command } : { driver, results },
  );
}

function assertSameBytes(rows: readonly ReaderRow[]): void {
  const seen = new Map<string, string>();
  for (const { driver, results } of rows) {
    for (const { checksum, bytes } of results)
      seen.set(`${checksum} of ${bytes} bytes`, driver.name);
  }
  if (seen.size > 1) {
    const list = [...seen].map(([sum, name]) => `${name}: ${sum}`).join('; ');
    throw new ChecksumError(`the readers saw different bytes: ${list}`);
  }
}

/** Median of one figure over the rounds; NaN when the driver did not run. */
export function medianOf(row: ReaderRow, figure: (result: ReaderResult) => number): number {
  return median(row.results.map(figure));
}

/** Median growth of one kind of memory while the file was opened and read; NaN when unknown. */
export function medianGrowth(row: ReaderRow, kind: keyof Memory): number {
  return medianOf(row, ({ before, after }) =>
    before && after ? after[kind] - before[kind] : Number.NaN,
  );
}
