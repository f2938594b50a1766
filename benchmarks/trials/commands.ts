/** The command line as people run it: whole processes, beside what else gives the same answer. */
import { copyFile, open, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { command, type Driver, NODE_START, python, system, TORCH_REFERENCE } from '../drivers.js';
import { cell, formatDuration, formatRatio, median } from '../figures.js';
import { measure, medianOf, type Row, reasonsOf } from '../measure.js';
import type { Section } from '../report.js';
import { type Command, type StartedChild, startChild } from '../run-child.js';
import { atLeast, atMost, beside } from '../targets.js';
import type { TrialContext } from '../trials.js';

const INSPECT = command('inspect');
const HEADER = command('header');
const HASH = command('hash');
/** It finds a difference, and says so by its exit code. */
const DIFF: Driver = { ...command('diff --values --json'), exitCode: 1 };
const PRINT_HEADER = python('header: three lines of Python', 'print_header.py', '-', []);
const SHA256SUM = system('sha256sum');
const COMPARE = python(
  'diff --values: the same in Python with torch',
  'compare_tensors.py',
  '-',
  TORCH_REFERENCE,
);

/** Short processes, between which there is little difference. */
const SHORT_ROUNDS = 40;

/** One value changes in so many bytes of the second file. */
const CHANGE_EVERY_BYTES = 2 ** 16;

/** A copy of a safetensors file in which the lowest bit of some values is another one. */
async function writeChangedCopy(path: string, target: string): Promise<void> {
  await copyFile(path, target);
  await using file = await open(target, 'r+');
  const { size } = await file.stat();
  const bytes = Buffer.alloc(8);
  await file.read(bytes, 0, 8, 0);
  for (let at = 8 + Number(bytes.readBigUInt64LE()); at < size; at += CHANGE_EVERY_BYTES) {
    await file.read(bytes, 0, 1, at);
    await file.write(Buffer.of(bytes.readUInt8() ^ 1), 0, 1, at);
  }
}

/** What both programs print: of each tensor that differs, how many values do. */
interface Differences {
  readonly changed: readonly { readonly name: string; readonly values: { differing: number } }[];
}

/** From just before a process is started until it has ended, in ms. */
async function elapsedOf<Line>(
  command: Command,
  signal: AbortSignal,
): Promise<{ readonly elapsed: number; readonly child: StartedChild<Line> }> {
  const begin = performance.now();
  const child = await startChild<Line>(command, signal);
  await child.end();
  return { elapsed: performance.now() - begin, child };
}

/**
 * Compares the model with a copy in which values were changed.
 *
 * @throws Error when the two programs do not find the same
 */
async function compareAll(context: TrialContext): Promise<Row<number>[]> {
  const { equipment, path, rounds, signal } = context;
  const other = join(context.folder, 'changed.safetensors');
  const found = new Set<string>();
  const run = async (command: Command): Promise<number> => {
    const { elapsed, child } = await elapsedOf<Differences>(command, signal);
    const { changed } = child.line();
    found.add(
      changed
        .map(({ name, values }) => `${name} ${values.differing}`)
        .sort()
        .join(),
    );
    return elapsed;
  };
  try {
    await writeChangedCopy(path, other);
    const plan = { title: 'diff', cache: 'warm', rounds, args: [other], run } as const;
    const rows = await measure([DIFF, COMPARE], plan, equipment, signal);
    if (found.size > 1) throw new Error('diff finds other differences than torch');
    return rows;
  } finally {
    await rm(other, { force: true });
  }
}

export async function commands(context: TrialContext): Promise<Section> {
  const { equipment, rounds, signal } = context;
  const run = async (command: Command): Promise<number> =>
    (await elapsedOf(command, signal)).elapsed;
  const start = (drivers: readonly Driver[], rounds: number): Promise<Row<number>[]> =>
    measure(drivers, { title: 'commands', cache: 'warm', rounds, run }, equipment, signal);
  const short = [NODE_START, INSPECT, HEADER, PRINT_HEADER];
  // Brings the programs themselves into the page cache; not counted.
  await start([...short, HASH, SHA256SUM], 1);
  const shortRows = await start(short, SHORT_ROUNDS);
  const rows = [
    ...shortRows,
    ...(await start([HASH, SHA256SUM], rounds)),
    ...(await compareAll(context)),
  ];
  const time = (driver: Driver): number => medianOf(rows, driver, (elapsed) => elapsed);
  const timesOf = (driver: Driver): readonly number[] =>
    rows.find((row) => row.driver === driver)?.results ?? [];
  const bare = timesOf(NODE_START);
  const excess = timesOf(INSPECT).map((elapsed, i) => elapsed - (bare[i] ?? Number.NaN));
  const ratio = (driver: Driver, rival: Driver): number => time(driver) / time(rival);
  const both = (ours: Driver, theirs: Driver): string =>
    beside(formatDuration, { ours: time(ours), theirs: time(theirs) });
  return {
    title: 'The command line: whole processes',
    rows: [
      ['program', 'time'],
      ...rows.map(({ driver }) => [driver.name, cell(time(driver), formatDuration)]),
    ],
    notes: [
      `the first four: medians of ${SHORT_ROUNDS}`,
      'hash gives seven hashes, sha256sum one of them',
      `diff: the model and a copy in which a value of every ${CHANGE_EVERY_BYTES / 1024} KiB is another one`,
      ...reasonsOf(rows),
    ],
    targets: [
      atMost(
        'inspect, above Node alone',
        median(excess),
        30,
        formatDuration,
        beside(formatDuration, { 'Node alone': time(NODE_START) }),
      ),
      atMost(
        'hash against sha256sum',
        ratio(HASH, SHA256SUM),
        1.1,
        formatRatio,
        both(HASH, SHA256SUM),
      ),
      atMost(
        'header against three lines of Python',
        ratio(HEADER, PRINT_HEADER),
        1,
        formatRatio,
        beside(formatDuration, {
          ours: time(HEADER),
          theirs: time(PRINT_HEADER),
          'Node alone': time(NODE_START),
        }),
      ),
      atLeast(
        'diff --values: faster than torch',
        ratio(COMPARE, DIFF),
        5,
        formatRatio,
        both(DIFF, COMPARE),
      ),
    ],
  };
}
