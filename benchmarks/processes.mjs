/** Fresh processes. A child prints a line of JSON and may stay until its standard input ends. */
import { spawn } from 'node:child_process';
import { privateMemory } from './children/memory.mjs';

/** Thrown when there is no figure: a program failed, or lacks something it needs. */
export class NotMeasuredError extends Error {}

const MAX_MESSAGE_LENGTH = 300;
/** Between two looks at the memory of a child. */
const MEMORY_MS = 5;

/** The most telling line of stderr: the last line of a Node program is its version. */
function failure(stderr, exit) {
  if (typeof exit === 'string') return new NotMeasuredError(`killed by ${exit}`);
  const lines = stderr.split('\n').filter((line) => line.trim() !== '');
  const line =
    lines.findLast((text) => /^\w*(Error|error)( \[\w+\])?: /.test(text)) ?? lines.at(-1);
  return new NotMeasuredError(line?.trim().slice(0, MAX_MESSAGE_LENGTH) ?? `exit code ${exit}`);
}

/**
 * Starts a command, `{ file, args, exitCode, onMemory }`, and waits for its first line, or for its end when it prints
 * nothing. `line()` gives the last line so far; `end()` ends its standard input and waits until it is gone;
 * `firstLineAfter` are the ms from just before the start until the first line came in. A NotMeasuredError says
 * how it failed: its exit code must be 0, or `exitCode`. `onMemory` gets its private memory in bytes again and again,
 * which costs a timed child some of its time.
 */
export async function startChild({ file, args, exitCode = 0, onMemory = undefined }, signal) {
  const begin = performance.now();
  const child = spawn(file, args, { stdio: 'pipe', signal });
  const look = () => onMemory(privateMemory(child.pid) ?? 0);
  const looking = onMemory === undefined ? undefined : setInterval(look, MEMORY_MS);
  let stdout = '';
  let stderr = '';
  const ended = new Promise((resolve, reject) => {
    // An abort emits `error` at once, but the child uses its files until it has ended.
    let aborted;
    child.on('error', (error) => {
      clearInterval(looking);
      if (child.pid === undefined) reject(new NotMeasuredError(error.message));
      else aborted = error;
    });
    child.on('close', (code, killed) => {
      clearInterval(looking);
      if (aborted !== undefined) reject(aborted);
      else if (code === exitCode) resolve();
      else reject(failure(stderr, killed ?? code));
    });
  });
  // Attach a handler even when nobody calls `end`, or Node reports an unhandled rejection.
  ended.catch(() => {});
  // Ignores errors of writing to a child that has failed already.
  child.stdin.on('error', () => {});
  child.stderr.setEncoding('utf8').on('data', (text) => {
    stderr += text;
  });
  const firstLine = new Promise((resolve) => {
    child.stdout.setEncoding('utf8').on('data', (text) => {
      stdout += text;
      if (stdout.includes('\n')) resolve();
    });
  });
  await Promise.race([firstLine, ended]);
  return {
    pid: child.pid ?? 0,
    firstLineAfter: performance.now() - begin,
    line: () => JSON.parse(stdout.trimEnd().split('\n').at(-1) ?? ''),
    end: async () => {
      child.stdin.end();
      await ended;
    },
  };
}

/** Runs a command to its end without standard input; times by the parent's clock, in ms. */
export async function timeProcess(command, signal) {
  const begin = performance.now();
  const child = await startChild(command, signal);
  await child.end();
  return { firstLine: child.firstLineAfter, elapsed: performance.now() - begin, line: child.line };
}

/** The same, for its last line. */
export async function runChild(command, signal) {
  return (await timeProcess(command, signal)).line();
}
