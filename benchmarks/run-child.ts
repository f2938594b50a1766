/** Fresh processes: each trial starts one, waits for its one line of JSON and lets it end. */
import { type ChildProcess, spawn } from 'node:child_process';

/** A program with its arguments. */
export interface Command {
  readonly file: string;
  readonly args: readonly string[];
}

/** A child that failed; the message is the line of stderr that says why. */
export class ChildError extends Error {}

/** What a child that ended well has left. */
export interface Finished {
  readonly stdout: string;
  /** From just before the process was started until its first whole line came in, in ms. */
  readonly firstLineAfter: number;
}

/** A child that has printed its line and stays until it is told to end. */
export interface HeldChild<Result> {
  readonly pid: number;
  readonly result: Result;
  /** Lets it end and waits for that. */
  release(): Promise<void>;
}

const MAX_MESSAGE_LENGTH = 300;

/** The line that tells most: Node's last one is its version, below the stack. */
function failure(child: ChildProcess, stderr: string): string {
  if (child.signalCode !== null) return `killed by ${child.signalCode}`;
  const lines = stderr.split('\n').filter((line) => line.trim() !== '');
  const line = lines.findLast((text) => /^\w*(Error|error): /.test(text)) ?? lines.at(-1);
  return line?.trim().slice(0, MAX_MESSAGE_LENGTH) ?? `exit code ${child.exitCode}`;
}

/** A started child with what it says and the promises of its life. */
interface Running {
  readonly child: ChildProcess;
  /** Wall time in ms until the first whole line. */
  readonly firstLine: Promise<number>;
  /** All of stdout, once the child has ended with exit code 0. */
  readonly ended: Promise<string>;
  stdout(): string;
}

function start({ file, args }: Command, signal: AbortSignal, held: boolean): Running {
  const begin = performance.now();
  const child = spawn(file, args, { stdio: [held ? 'pipe' : 'ignore', 'pipe', 'pipe'], signal });
  let stdout = '';
  let stderr = '';
  const firstLine = new Promise<number>((resolve) => {
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      stdout += text;
      if (stdout.includes('\n')) resolve(performance.now() - begin);
    });
    child.on('close', () => resolve(Number.NaN));
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  // A child that fails does not read what it is sent.
  child.stdin?.on('error', () => {});
  const ended = new Promise<string>((resolve, reject) => {
    // An aborted spawn reports its error at once; the files of the child go only when it has ended.
    let aborted: unknown;
    child.on('error', (error) => {
      if (child.pid === undefined) reject(error);
      else aborted = error;
    });
    child.on('close', () => {
      if (aborted !== undefined) reject(aborted);
      else if (child.exitCode === 0) resolve(stdout);
      else reject(new ChildError(failure(child, stderr)));
    });
  });
  return { child, firstLine, ended, stdout: () => stdout };
}

function parseLine<Result>(stdout: string): Result {
  return JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? '') as Result;
}

/**
 * Runs the command until it has ended.
 *
 * @throws ChildError when it ends with another exit code than 0.
 */
export async function runToEnd(command: Command, signal: AbortSignal): Promise<Finished> {
  const running = start(command, signal, false);
  const stdout = await running.ended;
  return { stdout, firstLineAfter: await running.firstLine };
}

/** `runToEnd`, and the last line it prints parsed as JSON. */
export async function runChild<Result>(command: Command, signal: AbortSignal): Promise<Result> {
  const { stdout } = await runToEnd(command, signal);
  return parseLine<Result>(stdout);
}

/** `runToEnd`, and the wall time in ms from starting the command until its first line is here. */
export async function timeToFirstLine(command: Command, signal: AbortSignal): Promise<number> {
  return (await runToEnd(command, signal)).firstLineAfter;
}

/**
 * Runs a command that prints one line and then waits for the end of its standard input.
 *
 * @throws ChildError when it ends without a line.
 */
export async function holdChild<Result>(
  command: Command,
  signal: AbortSignal,
): Promise<HeldChild<Result>> {
  const { child, firstLine, ended, stdout } = start(command, signal, true);
  await Promise.race([firstLine, ended]);
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) await ended;
  return {
    pid: child.pid ?? 0,
    result: parseLine<Result>(stdout()),
    release: async () => {
      child.stdin?.end();
      await ended;
    },
  };
}
