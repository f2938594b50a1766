/** Errors of system calls: makes them, checks their codes, adds the file's name. */

import { getSystemErrorMap, types } from 'node:util';
import type { Advice } from '../../errors/advice.js';
import { systemErrorCode } from '../addon/errno.js';

/** Errors of file systems that cannot sync. */
export const CANNOT_SYNC: readonly string[] = ['EINVAL', 'ENOSYS', 'ENOTSUP'];

const NOT_DURABLE: Advice = { option: 'durable', value: 'false', text: 'pass { durable: false }' };

function describe(code: string, text: string, syscall: string, path: string): string {
  return `${code}: ${text}, ${syscall} '${path}'`;
}

/** Makes the error that Node would throw for a code. */
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
 * Makes an error of a system call name the file that the caller knows: calls with a descriptor name no file, and
 * others would name the temporary file. Returns any other error as it is. `call` replaces the name of the failed
 * system call.
 */
export function aboutFile(error: unknown, path: string, call?: string): unknown {
  if (!types.isNativeError(error)) return error;
  const { errno, syscall = '' } = error as NodeJS.ErrnoException;
  if (typeof errno !== 'number') return error;
  const code = systemErrorCode(errno);
  const text = getSystemErrorMap().get(errno)?.[1] ?? 'failed';
  const failed = describe(code, text, call ?? syscall, path);
  const facts = { errno, code, syscall: call ?? syscall, path };
  if (syscall !== 'fsync' || !CANNOT_SYNC.includes(code)) {
    return Object.assign(new Error(failed, { cause: error }), facts);
  }
  const message = `${failed}; the file system cannot sync files: ${NOT_DURABLE.text}`;
  return Object.assign(new Error(message, { cause: error }), facts, { advice: [NOT_DURABLE] });
}

/** As above, for an error without a file; returns other errors, and those of a file without a path, as they are. */
export function namingFile(error: unknown, path: string | undefined): unknown {
  const isNamed = types.isNativeError(error) && (error as NodeJS.ErrnoException).path !== undefined;
  return isNamed || path === undefined ? error : aboutFile(error, path);
}

/** Adds advice to the end of an error's message. */
export function withAdvice(error: NodeJS.ErrnoException, advice: string): Error {
  const { code, errno, syscall, path } = error;
  const advised = new Error(`${error.message}; ${advice}`, { cause: error });
  return Object.assign(advised, { errno, code, syscall, path });
}

/** Whether a value is an error with one of these codes. */
export function hasCode(error: unknown, codes: readonly string[]): boolean {
  return types.isNativeError(error) && codes.includes((error as NodeJS.ErrnoException).code ?? '');
}
