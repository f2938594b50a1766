// Runs programs one after the other: `example.mjs` in each folder of which a line of stdin has the path. Prints a
// line of JSON for each: its output, or the error that ended it. A program is over when nothing is pending, as in a
// separate process.
import { readSync, writeSync } from 'node:fs';
import { join } from 'node:path';
import process from 'node:process';
import { pathToFileURL } from 'node:url';

const environment = { ...process.env };
let program;

process.stdout.write = (chunk, ...rest) => {
  program.printed += Buffer.from(chunk).toString();
  rest.findLast((each) => typeof each === 'function')?.();
  return true;
};

const fail = (error) => {
  if (program === undefined) throw error;
  program.error ??= String(error?.stack ?? error);
};
process.on('uncaughtException', fail);

const sleeping = new Int32Array(new SharedArrayBuffer(4));

/** The next byte of stdin, without a stream that would keep this process alive; undefined at the end. */
function nextByte() {
  const byte = Buffer.alloc(1);
  for (;;) {
    try {
      return readSync(0, byte) === 0 ? undefined : byte[0];
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
      Atomics.wait(sleeping, 0, 0, 5);
    }
  }
}

/** The next line of stdin; empty at the end. */
function nextLine() {
  const bytes = [];
  for (let byte = nextByte(); byte !== undefined && byte !== 10; byte = nextByte())
    bytes.push(byte);
  return Buffer.from(bytes).toString();
}

function run(folder) {
  program = { printed: '', isEnded: false };
  process.chdir(folder);
  const ended = () => {
    program.isEnded = true;
  };
  import(pathToFileURL(join(folder, 'example.mjs'))).then(ended, fail);
}

process.on('beforeExit', () => {
  if (program !== undefined) {
    if (!program.isEnded) fail('it waits for what never comes');
    if (process.exitCode) fail(`it ended with code ${process.exitCode}`);
    const { printed, error } = program;
    writeSync(1, `${JSON.stringify({ printed, error })}\n`);
  }
  program = undefined;
  process.exitCode = undefined;
  process.env = { ...environment };
  const folder = nextLine();
  // In a turn of the event loop: without one the process ends, and import() may need none.
  if (folder !== '') setImmediate(run, folder);
});
