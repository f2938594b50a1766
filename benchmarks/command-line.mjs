/** What both commands share: options, errors in one line, progress, a temporary folder, an end on Ctrl-C. */
import { mkdtemp, rm, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { formatByteSize, parseByteSize } from './figures.mjs';
import { MIN_MODEL_BYTES } from './models.mjs';

/** Something the user can put right; shown as one line without a stack. */
export class UsageError extends Error {}

/** Bytes of a model, by the text of `--size`. */
export function readSize(text) {
  const bytes = parseByteSize(text);
  if (bytes >= MIN_MODEL_BYTES) return bytes;
  const least = formatByteSize(MIN_MODEL_BYTES);
  throw new UsageError(`--size must be a size of ${least} or more, such as 1GB, but is "${text}"`);
}

/** Errors of the file system, of the package and of parseArgs have messages for users. */
const HAS_MESSAGE_FOR_USERS = /^(E[A-Z0-9]+|SAFETENSORS_\w+|ERR_PARSE_ARGS_\w+)$/;

/**
 * Runs a command: `body` gets its options and positionals, and a signal that SIGINT, SIGTERM and SIGHUP abort, so
 * that `finally` blocks run. Expected errors become one line on stderr and exit code 1.
 */
export async function runCommand(name, help, config, body) {
  const controller = new AbortController();
  const { signal } = controller;
  for (const event of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(event, () => controller.abort());
  try {
    const options = { ...config.options, help: { type: 'boolean', short: 'h' } };
    const parsed = parseArgs({ ...config, options });
    if (parsed.values.help) console.log(help);
    else await body(parsed.values, signal, parsed.positionals);
  } catch (error) {
    // By convention 130 stands for a program that was interrupted.
    process.exitCode = signal.aborted ? 130 : 1;
    const isExpected = error instanceof UsageError || HAS_MESSAGE_FOR_USERS.test(error.code);
    if (!signal.aborted && !isExpected) throw error;
    console.error(`${name}: ${signal.aborted ? 'interrupted' : error.message.split('\n', 1)[0]}`);
  }
}

/** Shows what is being done, in one line that is overwritten; nothing when stderr is no terminal. */
export function showProgress(text) {
  if (!process.stderr.isTTY) return;
  process.stderr.write(`\r\x1b[K${text.slice(0, (process.stderr.columns ?? 80) - 1)}`);
}

/** Free bytes in the folder for temporary files; some are left, or other programs fail because of a benchmark. */
export async function freeTemporaryBytes() {
  const { bavail, bsize } = await statfs(tmpdir());
  return Math.max(0, bavail * bsize - 500_000_000);
}

/**
 * Runs `body` with a new folder and removes the folder with everything in it, however `body` ends.
 * Throws a UsageError when the disk has not `neededBytes` free.
 */
export async function withTemporaryFolder(neededBytes, body) {
  const free = await freeTemporaryBytes();
  if (free < neededBytes) {
    const found = `${formatByteSize(free)} are free there (TMPDIR sets another place)`;
    throw new UsageError(`needs ${formatByteSize(neededBytes)} in ${tmpdir()}, but ${found}`);
  }
  const folder = await mkdtemp(join(tmpdir(), 'safetensors-bench-'));
  try {
    return await body(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}
