/** What the commands of this folder have in common: errors in one line, a clean end on Ctrl-C. */

import { ChildError } from './run-child.js';

/** Something the user can put right; shown as one line without a stack. */
export class UsageError extends Error {}

/** Exit status by convention for a program that was interrupted. */
const INTERRUPTED_EXIT_CODE = 130;

function isExpected(error: unknown): error is Error {
  if (error instanceof UsageError || error instanceof ChildError) return true;
  const code = error instanceof Error && 'code' in error ? String(error.code) : '';
  // Errors of the file system, of the package, and of the parser of arguments speak for themselves.
  return /^(E[A-Z0-9]+|SAFETENSORS_\w+|ERR_PARSE_ARGS_\w+)$/.test(code);
}

/**
 * Runs a command. SIGINT, SIGTERM and SIGHUP abort the signal that `body` gets, so that its
 * `finally` blocks run; expected errors become one line on stderr and exit code 1.
 */
export async function runCommand(
  name: string,
  body: (args: string[], signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const controller = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    process.on(signal, () => controller.abort());
  }
  try {
    await body(process.argv.slice(2), controller.signal);
  } catch (error) {
    process.exitCode = 1;
    if (controller.signal.aborted) {
      process.exitCode = INTERRUPTED_EXIT_CODE;
      console.error(`${name}: interrupted`);
    } else if (isExpected(error)) {
      console.error(`${name}: ${error.message.split('\n', 1)[0]}`);
    } else {
      throw error;
    }
  }
}

/** Shows what is being done, in one line that is overwritten; nothing when stderr is no terminal. */
export function showProgress(text: string): void {
  if (!process.stderr.isTTY) return;
  process.stderr.write(`\r\x1b[K${text.slice(0, (process.stderr.columns ?? 80) - 1)}`);
}

/** Takes the line of `showProgress` away. */
export function endProgress(): void {
  showProgress('');
}
