/** Errors of the system: their codes, and the file that they are about. */

import { getSystemErrorMap } from 'node:util';
import { systemErrorCode } from '../addon/errno.js';

function describe(code: string, text: string, syscall: string, path: string): string {
  return `${code}: ${text}, ${syscall} '${path}'`;
}

/** An error as the system would give it, for a code that Node knows. */
export function systemError(code: string, syscall: string, path: string): Error {
  const known = [...getSystemErrorMap()].find(([, [name]]) => name === code);
  const [errno, [, text]] = known ?? [undefined, [code, 'failed']];
  return Object.assign(new Error(describe(code, text, syscall, path)), {
    errno,
    code,
    syscall,
    path,
  });
}

/**
 * An error of the system with the file as the caller knows it: errors of work with a descriptor name
 * none, and those about a temporary file would name one that nobody knows. Anything else is given
 * back as it is. `call` is the system call to name instead of the one that failed.
 */
export function aboutFile(error: unknown, path: string, call?: string): unknown {
  if (!(error instanceof Error)) return error;
  const { errno, syscall = '' } = error as NodeJS.ErrnoException;
  if (typeof errno !== 'number') return error;
  const code = systemErrorCode(errno);
  const text = getSystemErrorMap().get(errno)?.[1] ?? 'failed';
  const named = new Error(describe(code, text, call ?? syscall, path), { cause: error });
  return Object.assign(named, { errno, code, syscall: call ?? syscall, path });
}

/** Whether it is an error with one of these codes. */
export function hasCode(error: unknown, codes: readonly string[]): boolean {
  return error instanceof Error && codes.includes((error as NodeJS.ErrnoException).code ?? '');
}
