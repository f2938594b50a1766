/** Runs readers in fresh processes, in turns, and takes medians. */

import { bringInto, type CacheState } from './cache-state.js';
import type { ReaderResult } from './children/measure-reader.js';
import { showProgress } from './command-line.js';
import { prepareDriver, type Runnable } from './driver-command.js';
import { type Driver, OURS, PLAIN_MAPPING } from './drivers.js';
import type { Equipment, Selection } from './equipment.js';
import { median } from './median.js';
import type { Memory } from './memory.js';
import { ChildError, runChild } from './run-child.js';

/** Results of one driver: of every round, or the reason why there are none. */
export interface ReaderRow {
  readonly driver: Driver;
  readonly results: readonly ReaderResult[];
  readonly reason?: string;
}

/** The plain mapping and this package saw different bytes: one of them is broken. */
export class ChecksumError extends Error {}

/** What is read, from where, how often, and until when. */
export interface ReadingPlan {
  readonly selection: Selection;
  readonly cache: CacheState;
  readonly count: number;
  readonly signal: AbortSignal;
}

/** A row while it is filled. */
interface OpenRow {
  readonly driver: Driver;
  readonly prepared: Runnable | string;
  readonly results: ReaderResult[];
  reason: string | undefined;
  /** Why the last round was left out, which is no reason to leave out the next. */
  skipped?: string | undefined;
}

/**
 * Runs every driver once per round, so that a slow moment of the machine does not hit one alone.
 * A driver that fails, or that saw other bytes than this package, has a reason and no results.
 *
 * @throws ChecksumError
 */
export async function measureReaders(
  drivers: readonly Driver[],
  equipment: Equipment,
  plan: ReadingPlan,
): Promise<ReaderRow[]> {
  const { selection, count } = plan;
  const rows = drivers.map((driver): OpenRow => {
    const prepared = prepareDriver(driver, equipment, { selection, hold: false });
    const reason = typeof prepared === 'string' ? prepared : undefined;
    return { driver, prepared, results: [], reason };
  });
  for (let round = 1; round <= count; round++) {
    for (const row of rows) {
      showProgress(`${plan.cache}: ${row.driver.name}, round ${round} of ${count}`);
      await measureOnce(row, equipment, plan);
    }
  }
  refuseOtherBytes(rows);
  return rows.map(({ driver, reason, skipped, results }) => {
    if (reason !== undefined) return { driver, results: [], reason };
    return results.length > 0 ? { driver, results } : { driver, results, reason: skipped ?? '' };
  });
}

async function measureOnce(row: OpenRow, equipment: Equipment, plan: ReadingPlan): Promise<void> {
  const { prepared } = row;
  if (row.reason !== undefined || typeof prepared === 'string') return;
  try {
    const { files } = prepared;
    row.skipped = await bringInto(plan.cache, files, equipment.loop, plan.signal);
    if (row.skipped !== undefined) return;
    row.results.push(await runChild<ReaderResult>(prepared.command, plan.signal));
  } catch (error) {
    if (!(error instanceof ChildError)) throw error;
    row.reason = error.message;
  }
}

function sumsOf(row: OpenRow | undefined): string[] {
  return (row?.results ?? []).map(({ checksum, bytes }) => `${checksum} of ${bytes} bytes`);
}

/** @throws ChecksumError when it is not a rival that is wrong */
function refuseOtherBytes(rows: readonly OpenRow[]): void {
  const ours = sumsOf(rows.find(({ driver }) => driver === OURS));
  const truth = sumsOf(rows.find(({ driver }) => driver === PLAIN_MAPPING))[0] ?? ours[0];
  if (truth === undefined) return;
  for (const row of rows) {
    const other = sumsOf(row).find((sum) => sum !== truth);
    if (other === undefined) continue;
    if (row.driver === OURS || row.driver === PLAIN_MAPPING) {
      throw new ChecksumError(`the readers saw different bytes: ${other} in place of ${truth}`);
    }
    row.reason = `it read wrong bytes: their sum is ${other} in place of ${truth}`;
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

/** Lines that say what was not measured. */
export function reasonsOf(rows: readonly ReaderRow[]): string[] {
  return rows.flatMap(({ driver, reason }) =>
    reason === undefined ? [] : [`${driver.name} was not measured: ${reason}`],
  );
}
