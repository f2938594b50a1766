/** Fresh processes. A child prints a line of JSON and may stay until its standard input ends. */
import { spawn } from 'node:child_process';

/** A program with its arguments. */
export interface Command {
  readonly file: string;
  readonly args: readonly string[];
  /** How it ends when all went well; 0 when left out. */
  readonly exitCode?: number | undefined;
}

/** Why there is no figure: a program failed, or something that it needs is missing. */
export class NotMeasuredError extends Error {}

/** A running child that has printed its first line. */
export interface StartedChild<Line> {
  readonly pid: number;
  /** From just before the process was started until its first line came in, in ms. */
  readonly firstLineAfter: number;
  /** The last line so far. */
  line(): Line;
  /**
   * Ends the child's standard input and waits until it is gone.
   *
   * @throws NotMeasuredError when its exit code is another one than the command's.
   */
  end(): Promise<void>;
}

const MAX_MESSAGE_LENGTH = 300;

/** The line of stderr that says most: the last line of a Node program is its version. */
function failure(stderr: string, exit: number | NodeJS.Signals | null): NotMeasuredError {
  if (typeof exit === 'string') return new NotMeasuredError(`killed by ${exit}`);
  const lines = stderr.split('\n').filter((line) => line.trim() !== '');
  const line =
    lines.findLast((text) => /^\w*(Error|error)( \[\w+\])?: /.test(text)) ?? lines.at(-1);
  return new NotMeasuredError(line?.trim().slice(0, MAX_MESSAGE_LENGTH) ?? `exit code ${exit}`);
}

/**
 * Starts a command and waits for its first line, or for its end when it prints nothing.
 *
 * @throws NotMeasuredError when it fails before that.
 */
export async function startChild<Line>(
  { file, args, exitCode = 0 }: Command,
  signal: AbortSignal,
): Promise<StartedChild<Line>> {
  const begin = performance.now();
  const child = spawn(file, args, { stdio: 'pipe', signal });
  let stdout = '';
  let stderr = '';
  const ended = new Promise<void>((resolve, reject) => {
    // An abort emits `error` at once, but the child uses its files until it has ended.
    let aborted: unknown;
    child.on('error', (error) => {
      if (child.pid === undefined) reject(new NotMeasuredError(error.message));
      else aborted = error;
    });
    child.on('close', (code, killed) => {
      if (aborted !== undefined) reject(aborted);
      else if (code === exitCode) resolve();
      else reject(failure(stderr, killed ?? code));
    });
  });
  // Attach a handler even when nobody calls `end`, or Node reports an unhandled rejection.
  ended.catch(() => {});
  // Writing to a child that has failed already is no error of ours.
  child.stdin.on('error', () => {});
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const firstLine = new Promise<void>((resolve) => {
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      if (stdout.includes('\n')) resolve();
    });
  });
  await Promise.race([firstLine, ended]);
  const firstLineAfter = performance.now() - begin;
  return {
    pid: child.pid ?? 0,
    firstLineAfter,
    line: () => JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Line,
    end: async () => {
      child.stdin.end();
      await ended;
    },
  };
}

/** Runs a command to its end without standard input and gives its last line. */
export async function runChild<Line>(command: Command, signal: AbortSignal): Promise<Line> {
  const child = await startChild<Line>(command, signal);
  await child.end();
  return child.line();
}
