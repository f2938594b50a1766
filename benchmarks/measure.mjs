/** Runs contenders in fresh processes, in turns, and keeps the lines that they print. */
import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { showProgress } from './command-line.mjs';
import { commandOf } from './equipment.mjs';
import { median } from './figures.mjs';
import { NotMeasuredError, runChild, timeProcess } from './processes.mjs';

/** The lines of contenders, one per round; or why a contender was not measured. */
export class Measured {
  constructor(rows) {
    this.rows = rows;
  }

  /** The measurements of several legs. */
  static of(...legs) {
    return new Measured(legs.flatMap(({ rows }) => rows));
  }

  lines(contender) {
    return this.rows.find((row) => row.contender === contender)?.lines ?? [];
  }

  /** A figure of every round, by its name in the line or computed from the line. */
  every(contender, figure) {
    const read = typeof figure === 'function' ? figure : (line) => line[figure] ?? Number.NaN;
    return this.lines(contender).map(read);
  }

  /** The median of a figure; NaN when the contender did not run. */
  median(contender, figure) {
    return median(this.every(contender, figure));
  }

  /** The most private memory that was seen in the round before the first, in bytes; NaN without one. */
  privateMemory(contender) {
    return this.rows.find((row) => row.contender === contender)?.privateMemory ?? Number.NaN;
  }

  /** The median of what `elapsed` is above that of another, of the same rounds. */
  excess(contender, other) {
    const base = this.every(other, 'elapsed');
    return median(this.every(contender, 'elapsed').map((elapsed, round) => elapsed - base[round]));
  }

  /** Lines that name the contenders that were not measured. */
  get reasons() {
    const failed = this.rows.filter(({ reason }) => reason !== undefined);
    return failed.map(({ contender, reason }) => `${contender.name} was not measured: ${reason}`);
  }
}

/** Shuffles each round, so that a slow moment or a predecessor's leftovers do not always hit the same contender. */
function shuffled(items) {
  const places = items.map((item) => ({ item, at: Math.random() }));
  return places.sort((a, b) => a.at - b.at).map(({ item }) => item);
}

/**
 * Runs every contender once per round. A leg has
 * - `contenders`, and `rounds`: a number, or a function of the contender;
 * - `path`, the file that they get, by default the weights in the format of each, by `fileOf`; `args` after it;
 * - `cache`, `warm` or `cold`: where the file's pages are before the clock starts;
 * - `run`, which gives the line of a command; by default the command prints it, or, with a `clock`, the parent times
 *   `elapsed` in all, or up to the `firstLine`;
 * - `hasWarmUp`, by default with a `clock`: a round before the first brings the programs into the page cache; since it
 *   does not count, their memory is looked at in it;
 * - `trusted`, contenders whose bytes are right; a rival that saw different bytes gets a reason and no lines;
 * - `order` of the rows in a round, by default random;
 * - `compared`, figures of the line for `--compare`, by default `elapsed`.
 * A contender that fails in one round has a reason and no lines.
 */
export async function measure(leg, title, { equipment, signal, isTry = false }) {
  const { contenders, rounds, path, args = [], cache, clock, order = shuffled, trusted } = leg;
  const { hasWarmUp = clock !== undefined && !isTry, fileOf = equipment.fileOf } = leg;
  const timed = async (command) => ({ elapsed: (await timeProcess(command, signal))[clock] });
  const { run = clock === undefined ? (command) => runChild(command, signal) : timed } = leg;
  const rows = contenders.map((contender) => ({ contender, lines: [], reason: undefined }));
  const roundsOf = typeof rounds === 'number' ? () => rounds : rounds;
  const most = Math.max(...contenders.map(roundsOf));
  for (let round = hasWarmUp ? 0 : 1; round <= most; round++) {
    for (const row of order(rows, round)) {
      const { contender, lines, reason } = row;
      if (reason !== undefined || round > roundsOf(contender)) continue;
      try {
        const program = commandOf(contender, equipment);
        const file = path ?? (await fileOf(contender.format));
        showProgress(`${title}: ${contender.name}, round ${round} of ${roundsOf(contender)}`);
        if (cache !== undefined) await bringInto(cache, file, equipment, signal);
        const onMemory = (bytes) => {
          row.privateMemory = Math.max(row.privateMemory ?? 0, bytes);
        };
        const command = { ...program, args: [...program.args, file, ...args] };
        const line = await run(round === 0 ? { ...command, onMemory } : command);
        if (round > 0) lines.push(line);
      } catch (error) {
        if (!(error instanceof NotMeasuredError)) throw error;
        Object.assign(row, { reason: error.message, lines: [] });
      }
    }
  }
  const measured = new Measured(rows);
  return trusted === undefined ? measured : requireEqualBytes(measured, trusted);
}

/** Leaves out rivals whose bytes differ from the trusted contenders', which must all agree. */
export function requireEqualBytes({ rows }, trusted) {
  const sumsOf = ({ lines }) => lines.map((line) => `${line.checksum} of ${line.bytes} bytes`);
  const sums = rows.filter(({ contender }) => trusted.includes(contender)).flatMap(sumsOf);
  const [truth] = sums;
  if (sums.some((sum) => sum !== truth)) {
    throw new Error(`readers that are trusted saw different bytes: ${sums.join(', ')}`);
  }
  const checked = (row) => {
    const other = truth && sumsOf(row).find((sum) => sum !== truth);
    const reason = `it read wrong bytes: their sum is ${other} instead of ${truth}`;
    return other === undefined ? row : { ...row, lines: [], reason };
  };
  return new Measured(rows.map(checked));
}

/**
 * Runs a trial: `prepare` makes its files in a separate folder, `legs` are measured one after the other,
 * by `measureLeg` if another way is wanted, and `use` gets what was measured and what `prepare` gave.
 */
export async function runTrial(trial, bench, use, measureLeg = measure) {
  const folder = await mkdtemp(join(bench.folder, `${trial.name}-`));
  const own = { ...bench, folder };
  try {
    showProgress(`${trial.name}: writing its files`);
    const files = (await trial.prepare?.(own)) ?? {};
    const measured = {};
    for (const [name, leg] of Object.entries(trial.legs(own, files))) {
      measured[name] = await measureLeg(leg, `${trial.name}, ${name}`, own);
    }
    return use(measured, own, files);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

/** Asking may itself bring a page or two back. */
const IS_IN = { cold: (share) => share <= 0.01, warm: (share) => share >= 0.99 };
/** A system short of memory keeps pages that are read a second time. */
const CACHE_ATTEMPTS = 4;

/** Files whose pages all came back by the same reads. */
const readAnew = new Set();

/**
 * Brings a file into the page cache or drops it, and has `mincore` confirm it. Drops it once before it is
 * measured first: what has just been written lies in the page cache in pieces that depend on its writer, up to
 * 2 MB long, and the longer they are the less a mapping costs. The same bytes were summed in 127 and in 247 ms.
 */
async function bringInto(state, path, { programs }, signal) {
  const bring = (to) => runChild({ file: join(programs, 'limits'), args: [to, path] }, signal);
  if (!readAnew.has(path)) {
    readAnew.add(path);
    // Not every system can drop pages. Then they stay as they were written.
    await bring('cold').catch(() => signal.throwIfAborted());
  }
  let share = Number.NaN;
  for (let attempt = 1; attempt <= CACHE_ATTEMPTS; attempt++) {
    share = await bring(state);
    if (IS_IN[state](share)) return;
  }
  throw new NotMeasuredError(`${(share * 100).toFixed(1)} % of the file are in the page cache`);
}
