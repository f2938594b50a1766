/** Runs drivers in fresh processes, in turns, and keeps what each of them printed. */
import { join } from 'node:path';
import { showProgress } from './command-line.js';
import type { Driver } from './drivers.js';
import { type Equipment, ROOT_FOLDER, SOURCE_FOLDER } from './equipment.js';
import { median } from './figures.js';
import { type Command, NotMeasuredError, runChild } from './run-child.js';

/** The program that `bin` names. */
const COMMAND_LINE = join(ROOT_FOLDER, 'lib/cli.js');

/** Results of one driver, one per round; or the reason why there are none. */
export interface Row<Result> {
  readonly driver: Driver;
  readonly results: readonly Result[];
  readonly reason: string | undefined;
}

/** What is asked of all drivers. */
export interface Plan<Result> {
  /** Shown while it runs. */
  readonly title: string;
  /** The file that the drivers get; without it the weights in the driver's format. */
  readonly path?: string;
  /** Arguments behind METHOD and FILE. */
  readonly args?: readonly string[];
  /** Where the file's pages are before the clock starts; without it as they happen to be. */
  readonly cache?: CacheState | undefined;
  /** Fresh processes per driver: as many for all, or for each. */
  readonly rounds: number | ((driver: Driver) => number);
  /** Runs a driver's command; without it `runChild`. */
  run?(command: Command): Promise<Result>;
}

/**
 * Runs every driver once per round, in another order each time: neither a slow moment of the machine nor
 * what the one before leaves behind hits one alone. A driver with fewer rounds than others is left out of
 * the last ones. A driver that fails in one round has a reason and no results.
 */
export async function measure<Result>(
  drivers: readonly Driver[],
  plan: Plan<Result>,
  equipment: Equipment,
  signal: AbortSignal,
): Promise<Row<Result>[]> {
  const rows = drivers.map((driver) => {
    return { driver, results: [] as Result[], reason: undefined as string | undefined };
  });
  const { title, args = [], cache, rounds } = plan;
  const run = plan.run ?? ((command: Command) => runChild<Result>(command, signal));
  const roundsOf = typeof rounds === 'number' ? () => rounds : rounds;
  const most = Math.max(...drivers.map(roundsOf));
  for (let round = 1; round <= most; round++) {
    for (const row of shuffled(rows)) {
      if (row.reason !== undefined || round > roundsOf(row.driver)) continue;
      try {
        const program = commandOf(row.driver, equipment);
        const path = plan.path ?? (await equipment.fileOf(row.driver.format));
        const { exitCode } = row.driver;
        const command = { file: program.file, args: [...program.args, path, ...args], exitCode };
        showProgress(`${title}: ${row.driver.name}, round ${round} of ${roundsOf(row.driver)}`);
        if (cache !== undefined) await bringInto(cache, path, equipment, signal);
        row.results.push(await run(command));
      } catch (error) {
        if (!(error instanceof NotMeasuredError)) throw error;
        row.reason = error.message;
        row.results.length = 0;
      }
    }
  }
  return rows;
}

function shuffled<Item>(items: readonly Item[]): Item[] {
  return items
    .map((item) => ({ item, at: Math.random() }))
    .sort((a, b) => a.at - b.at)
    .map(({ item }) => item);
}

/**
 * The command of a driver, up to its method.
 *
 * @throws NotMeasuredError when Python or a package is missing.
 */
export function commandOf(
  { program, script, method, packages }: Driver,
  { programs, python, npmPackages }: Omit<Equipment, 'fileOf'>,
): Command {
  if (program === 'c') return { file: join(programs, script), args: [method] };
  if (program === 'node') {
    const missing = packages.filter((name) => !(name in npmPackages));
    if (missing.length > 0) {
      throw new NotMeasuredError(`not installed, or did not build: ${missing.join(', ')}`);
    }
    const path = join(import.meta.dirname, 'children', script);
    return { file: process.execPath, args: [path, method] };
  }
  if (program === 'command') {
    return { file: process.execPath, args: [COMMAND_LINE, ...method.split(' ')] };
  }
  if (program === 'system') return { file: script, args: [] };
  if (typeof python === 'string') throw new NotMeasuredError(python);
  const missing = packages.filter((name) => !(name in python.packages));
  if (missing.length > 0) throw new NotMeasuredError(`Python has no: ${missing.join(', ')}`);
  return { file: python.file, args: [join(SOURCE_FOLDER, 'children', script), method] };
}

/** Median of one figure over the rounds; NaN when the driver did not run. */
export function medianOf<Result>(
  rows: readonly Row<Result>[],
  driver: Driver,
  figure: (result: Result) => number,
): number {
  return median((rows.find((row) => row.driver === driver)?.results ?? []).map(figure));
}

/** Lines that say what was not measured. */
export function reasonsOf(rows: readonly Row<unknown>[]): string[] {
  return rows.flatMap(({ driver, reason }) =>
    reason === undefined ? [] : [`${driver.name} was not measured: ${reason}`],
  );
}

/** Whether a file's pages are in memory. */
export type CacheState = 'warm' | 'cold';

/** The very call that asks may bring a page or two back. */
const COLD_SHARE = 0.01;
const WARM_SHARE = 0.99;
/** A system short of memory keeps pages that are read a second time. */
const CACHE_ATTEMPTS = 4;

/** Files whose pages all came back by the same reads. */
const readAnew = new Set<string>();

/**
 * Drops a file once before it is measured first. What has just been written lies in the page cache in pieces
 * that depend on its writer, up to 2 MB long, and the longer they are the less a mapping costs: the same bytes
 * were summed in 127 and in 247 ms.
 */
async function readOnceAnew(path: string, program: string, signal: AbortSignal): Promise<void> {
  if (readAnew.has(path)) return;
  readAnew.add(path);
  try {
    await runChild<number>({ file: program, args: ['cold', path] }, signal);
  } catch {
    // Not every system can drop pages. Then they stay as they were written.
    signal.throwIfAborted();
  }
}

/**
 * Brings a file into the page cache or drops it, and has `mincore` confirm it.
 *
 * @throws NotMeasuredError when its pages stay where they are.
 */
async function bringInto(
  state: CacheState,
  path: string,
  { programs }: Equipment,
  signal: AbortSignal,
): Promise<void> {
  const program = join(programs, 'page_cache');
  await readOnceAnew(path, program, signal);
  const command = { file: program, args: [state, path] };
  let share = Number.NaN;
  for (let attempt = 1; attempt <= CACHE_ATTEMPTS; attempt++) {
    share = await runChild<number>(command, signal);
    if (state === 'cold' ? share <= COLD_SHARE : share >= WARM_SHARE) return;
  }
  throw new NotMeasuredError(`${(share * 100).toFixed(1)} % of the file are in the page cache`);
}
