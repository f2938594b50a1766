/** Runs writers in fresh processes, in turns, each to a new file or folder, and compares its bytes. */
import { rm } from 'node:fs/promises';
import { bringInto } from './cache-state.js';
import type { WriterResult } from './children/measure-writer.js';
import { showProgress } from './command-line.js';
import { median } from './median.js';
import { ChildError, type Command, type HeldChild, holdChild, runChild } from './run-child.js';
import type { TouchLoop } from './touch-loop.js';

/** One way of writing. */
export interface Writer {
  /** Heading of its row. */
  readonly name: string;
  /** What it is asked for, without the last argument, HOLDER; a text that says why it cannot run. */
  readonly command: Command | string;
}

/** What all of them write, and where. */
export interface WritingPlan {
  /** Read once before every process, so that they are in the page cache. */
  readonly sources: readonly string[];
  /** What is written, in bytes. */
  readonly byteLength: number;
  /** File or folder that the writers make; removed before and after each. */
  readonly target: string;
  /** Says what is wrong with the target of a first round; undefined when nothing is. */
  check(): Promise<string | undefined>;
  readonly rounds: number;
  readonly loop: TouchLoop | string;
  readonly signal: AbortSignal;
}

/** Results of a writer, of every round; the reason why there are none. */
export interface WriterRow {
  readonly name: string;
  readonly results: readonly WriterResult[];
  readonly reason: string | undefined;
}

/** Memory that is kept ready, by the byte written: there must be some left for the writer itself. */
const HELD_PER_BYTE = 1.25;
/** Stands in the command where no process holds memory. */
const NO_HOLDER = '-';

/** Keeps memory ready for the next writer, who ends it; undefined without a C compiler. */
async function holdMemory(plan: WritingPlan): Promise<HeldChild<number> | undefined> {
  const { byteLength, loop, signal } = plan;
  if (typeof loop === 'string') return undefined;
  const args = ['hold', String(Math.round(byteLength * HELD_PER_BYTE))];
  return await holdChild<number>({ file: loop.writeLimit, args }, signal);
}

/** Runs every writer once per round, so that a slow moment of the machine does not hit one alone. */
export async function measureWriters(
  writers: readonly Writer[],
  plan: WritingPlan,
): Promise<WriterRow[]> {
  const { sources, target, rounds, loop, signal } = plan;
  const removeTarget = (): Promise<void> => rm(target, { recursive: true, force: true });
  const rows = writers.map(({ name, command }) => ({
    name,
    command,
    results: [] as WriterResult[],
    reason: typeof command === 'string' ? command : undefined,
  }));
  let holder = await holdMemory(plan);
  for (let round = 1; round <= rounds; round++) {
    for (const row of rows) {
      const { name, command } = row;
      if (row.reason !== undefined || typeof command === 'string') continue;
      showProgress(`${name}, round ${round} of ${rounds}`);
      try {
        row.reason = await bringInto('warm', sources, loop, signal);
        if (row.reason !== undefined) continue;
        const args = [...command.args, String(holder?.pid ?? NO_HOLDER)];
        const result = await runChild<WriterResult>({ ...command, args }, signal);
        if (round === 1) row.reason = await plan.check();
        if (row.reason === undefined) row.results.push(result);
      } catch (error) {
        if (!(error instanceof ChildError)) throw error;
        row.reason = error.message;
      } finally {
        await removeTarget();
        await holder?.release();
      }
      holder = await holdMemory(plan);
    }
  }
  await holder?.release();
  return rows.map(({ name, results, reason }) => {
    return { name, reason, results: reason === undefined ? results : [] };
  });
}

/** The median of a writer's times in ms; NaN when there are none. */
export function timeOf(rows: readonly WriterRow[], name: string): number {
  const results = rows.find((row) => row.name === name)?.results ?? [];
  return median(results.map(({ elapsed }) => elapsed));
}

/** The most extra memory that any of a writer's rounds took, in bytes; NaN when it is unknown. */
export function memoryOf(rows: readonly WriterRow[], name: string): number {
  const results = rows.find((row) => row.name === name)?.results ?? [];
  if (results.length === 0) return Number.NaN;
  return Math.max(...results.map(({ extraMemory }) => extraMemory ?? Number.NaN));
}
