/** Readers of the same weights: what each printed, and whether all of them saw the same bytes. */
import { safeOpen } from 'safetensors-mmap';
import type { ReaderResult } from './children/tensor-clock.js';
import { type Driver, OURS, PLAIN_MAPPING } from './drivers.js';
import type { Equipment } from './equipment.js';
import { measure, medianOf, type Plan, type Row } from './measure.js';
import type { Memory } from './process-memory.js';

/** What is read, as arguments of a reader: the position of a tensor or `all`, begin and length. */
export type Selection = readonly [index: string, begin: string, byteLength: string];

/** All tensors of a safetensors file. */
export function selectAll(path: string): Selection {
  using file = safeOpen(path);
  const last = file.offsetKeys().at(-1);
  const byteLength = last === undefined ? 0 : file.info(last).dataOffsets[1];
  return ['all', String(file.byteLength - byteLength), String(byteLength)];
}

/** The largest tensor that lies over the middle of the data or behind it. */
export function selectMiddle(path: string): Selection {
  const [, start, total] = selectAll(path);
  using file = safeOpen(path);
  const places = file.offsetKeys().map((name, index) => {
    const [begin, end] = file.info(name).dataOffsets;
    return { index, begin: begin + Number(start), byteLength: end - begin };
  });
  const middle = Number(start) + Number(total) / 2;
  const behind = places.filter(({ begin, byteLength }) => begin + byteLength > middle);
  const longest = Math.max(...behind.map(({ byteLength }) => byteLength));
  const found = behind.find(({ byteLength }) => byteLength === longest);
  if (found === undefined) throw new Error(`${path} has no tensors`);
  return [String(found.index), String(found.begin), String(found.byteLength)];
}

/** `measure` for readers of the selected tensors, then `refuseOtherBytes`. */
export async function measureReaders(
  drivers: readonly Driver[],
  plan: Pick<Plan<ReaderResult>, 'title' | 'path' | 'cache' | 'rounds'>,
  selection: Selection,
  equipment: Equipment,
  signal: AbortSignal,
): Promise<Row<ReaderResult>[]> {
  const args = [equipment.programs, ...selection];
  return refuseOtherBytes(await measure(drivers, { ...plan, args }, equipment, signal));
}

/**
 * The rows, without the results of rivals that saw other bytes than the trusted drivers: this package and the
 * plain mapping, unless others are given.
 *
 * @throws Error when the trusted ones saw different bytes.
 */
export function refuseOtherBytes<Result extends ReaderResult>(
  rows: readonly Row<Result>[],
  trustedDrivers: readonly Driver[] = [PLAIN_MAPPING, OURS],
): Row<Result>[] {
  const sumsOf = ({ results }: Row<Result>): string[] =>
    results.map(({ checksum, bytes }) => `${checksum} of ${bytes} bytes`);
  const trusted = rows.filter(({ driver }) => trustedDrivers.includes(driver)).flatMap(sumsOf);
  const [truth] = trusted;
  if (truth === undefined) return [...rows];
  if (trusted.some((sum) => sum !== truth)) {
    throw new Error(`readers that are trusted saw different bytes: ${trusted.join(', ')}`);
  }
  return rows.map((row) => {
    const other = sumsOf(row).find((sum) => sum !== truth);
    if (other === undefined) return row;
    const reason = `it read wrong bytes: their sum is ${other} instead of ${truth}`;
    return { driver: row.driver, results: [], reason };
  });
}

/** Median growth of one kind of memory while a file was opened and read; NaN when unknown. */
export function medianGrowth(
  rows: readonly Row<ReaderResult>[],
  driver: Driver,
  kind: keyof Memory,
): number {
  return medianOf(rows, driver, ({ before, after }) =>
    before && after ? after[kind] - before[kind] : Number.NaN,
  );
}
