/** Fresh processes: each trial starts one, waits for its one line of JSON and lets it end. */
import { type ChildProcess, spawn } from 'node:child_process';

/** A program with its arguments. */
export interface Command {
  readonly file: string;
  readonly args: readonly string[];
}

/** A child that failed; the message is the last line it wrote to stderr. */
export class ChildError extends Error {}

/** What a child that ended well has left. */
export interface Finished {
  readonly stdout: string;
  /** From just before the process was started until its first whole line came in, in ms. */
  readonly firstLineAfter: number;
}

function failure(child: ChildProcess, stderr: string): string {
  const lines = stderr.split('\n').filter((line) => line.trim() !== '');
  const last = lines.at(-1)?.trim().slice(0, 300);
  if (child.signalCode !== null) return `killed by ${child.signalCode}`;
  return last ?? `exit code ${child.exitCode}`;
}

/**
 * Runs the command until it has ended.
 *
 * @throws ChildError when it ends with another exit code than 0.
 */
export async function runToEnd({ file, args }: Command, signal: AbortSignal): Promise<Finished> {
  const start = performance.now();
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'], signal });
  let stdout = '';
  let stderr = '';
  let firstLineAfter = Number.NaN;
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    stdout += text;
    if (Number.isNaN(firstLineAfter) && stdout.includes('\n')) {
      firstLineAfter = performance.now() - start;
    }
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  await new Promise<void>((resolve, reject) => {
    // An aborted spawn reports its error at once; the files of the child go only when it has ended.
    let aborted: unknown;
    child.on('error', (error) => {
      if (child.pid === undefined) reject(error);
      else aborted = error;
    });
    child.on('close', () => (aborted === undefined ? resolve() : reject(aborted)));
  });
  if (child.exitCode !== 0) throw new ChildError(failure(child, stderr));
  return { stdout, firstLineAfter };
}

/** `runToEnd`, and the last line it prints parsed as JSON. */
export async function runChild<Result>(command: Command, signal: AbortSignal): Promise<Result> {
  const { stdout } = await runToEnd(command, signal);
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Result;
}

/** `runToEnd`, and the wall time in ms from starting the command until its first line is here. */
export async function timeToFirstLine(command: Command, signal: AbortSignal): Promise<number> {
  return (await runToEnd(command, signal)).firstLineAfter;
}
