#!/usr/bin/env node
/**
 * The program: builds a context from argv, streams and signals, and sets the exit code. Loads the commands when it is
 * called for more than its version, and has Node cache their compiled code.
 */

import { VERSION } from '../platform/addon/version.js';
import type { Output } from './output/output.js';

// The bundle takes builtins that modules import from its largest file, which only commands load.
const { fstatSync, write, writeSync } = process.getBuiltinModule('node:fs');
const { join } = process.getBuiltinModule('node:path');
const { promisify } = process.getBuiltinModule('node:util');

const CANONICAL_COLUMNS = 80;

/** The shell's exit code for a program ended by a signal. */
const SIGNAL_EXIT_CODE = 128;
const SIGNALS = { SIGINT: 2, SIGPIPE: 13, SIGTERM: 15 };

/** The exit code of Node if the command never settles. */
const UNSETTLED_EXIT_CODE = 13;

/** A reader such as `head` closes the pipe early: ends as other programs do. */
function endQuietly(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') throw error;
  process.exit(SIGNAL_EXIT_CODE + SIGNALS.SIGPIPE);
}

function isSystemError(error: unknown, code: string): boolean {
  return (error as NodeJS.ErrnoException).code === code;
}

/** A file or a pipe. Node's own stream for it would take 2 ms to load. */
function plainOutput(fd: 1 | 2): Output {
  let stream: NodeJS.WriteStream | undefined;
  const write = (text: string): void => {
    let bytes = Buffer.from(text);
    try {
      while (stream === undefined && bytes.length > 0) {
        bytes = bytes.subarray(writeSync(fd, bytes));
      }
    } catch (error) {
      if (!isSystemError(error, 'EAGAIN')) endQuietly(error as NodeJS.ErrnoException);
      // The pipe is full and non-blocking: the stream buffers this text and all that follows.
      stream = standardStream(fd);
    }
    stream?.write(bytes);
  };
  return { write, isTerminal: false, columns: null, hasColors: false };
}

function standardStream(fd: 1 | 2): NodeJS.WriteStream {
  const stream = fd === 1 ? process.stdout : process.stderr;
  if (stream.listenerCount('error') === 0) stream.on('error', endQuietly);
  return stream;
}

function isDevice(fd: 1 | 2): boolean {
  try {
    return fstatSync(fd).isCharacterDevice();
  } catch {
    // Closed by the caller.
    return false;
  }
}

function outputOf(fd: 1 | 2): Output {
  const stream = isDevice(fd) ? standardStream(fd) : undefined;
  if (stream?.isTTY !== true) return plainOutput(fd);
  // An empty NO_COLOR counts as unset.
  const wantsColors = !process.env['NO_COLOR'];
  return {
    write: (text) => stream.write(text),
    isTerminal: true,
    // A terminal of unknown width says 0.
    columns: stream.columns || CANONICAL_COLUMNS,
    hasColors: wantsColors && stream.hasColors(),
  };
}

const writeAsync = promisify(write);

/** Writes bytes to a file or a pipe, on the thread pool: a reader that stops must not keep signals from being heard. */
async function writeBytes(bytes: Uint8Array): Promise<void> {
  for (let at = 0; at < bytes.length; ) {
    try {
      const { bytesWritten } = await writeAsync(1, bytes, at, bytes.length - at, null);
      at += bytesWritten;
    } catch (error) {
      if (!isSystemError(error, 'EAGAIN')) endQuietly(error as NodeJS.ErrnoException);
      // The pipe is full and non-blocking: the stream waits until it has room.
      const rest = bytes.subarray(at);
      await new Promise((resolve) => standardStream(1).write(rest, resolve));
      return;
    }
  }
}

/**
 * Caches compiled code, from Node 22.8 on. In the user's own folder: in the folder for temporary files, which is Node's
 * default, another user could put code in its place.
 */
function cacheCompiledCode(): void {
  const { XDG_CACHE_HOME: caches, HOME: home } = process.env;
  const folder = caches || (home && join(home, '.cache'));
  // Node 20 has no such function, and neither have its types. Looking for it there would load a module.
  if (process.versions.node.startsWith('20.')) return;
  const nodeModule = process.getBuiltinModule('node:module');
  const { enableCompileCache } = nodeModule as { enableCompileCache?: (folder: string) => void };
  if (folder) enableCompileCache?.(join(folder, 'safetensors-mmap', 'compiled'));
}

async function runCommand(args: readonly string[]): Promise<void> {
  const interruption = new AbortController();
  let signalCode: number | undefined;
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    // A second signal ends the process at once.
    process.once(signal, () => {
      signalCode = SIGNAL_EXIT_CODE + SIGNALS[signal];
      interruption.abort();
    });
  }
  process.exitCode = UNSETTLED_EXIT_CODE;
  cacheCompiledCode();
  const { run } = await import('./run.js');
  const code = await run(args, {
    stdout: outputOf(1),
    stderr: outputOf(2),
    writeBytes,
    signal: interruption.signal,
  });
  process.exitCode = signalCode ?? code;
}

const VERSION_OPTIONS: readonly (string | undefined)[] = ['--version', '-v', '-V'];

const args = process.argv.slice(2);
if (VERSION_OPTIONS.includes(args[0])) outputOf(1).write(`${VERSION}\n`);
// Not a top-level await, which keeps the bundler from merging chunks.
else void runCommand(args);
