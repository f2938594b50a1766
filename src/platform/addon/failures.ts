/** Turns the addon's failures into errors. */

import type { Advice } from '../../errors/advice.js';
import { argumentRangeError, argumentTypeError } from '../../errors/arguments.js';
import { nodeErrno, systemErrorCode } from './errno.js';

/**
 * A failed call's result: a negative errno, or the name of an unusable argument.
 */
export type Failure = number | string;

/** The addon's arguments by name, with the values that each accepts. */
const EXPECTED_ARGUMENT: Readonly<Record<string, string>> = {
  fd: 'a file descriptor',
  sourceFd: 'a file descriptor',
  targetFd: 'a file descriptor',
  byteLength: 'an integer above 0, and within the mapping if there is one',
  byteOffset: 'an integer such that the range lies within the mapping',
  guard: 'a boolean',
  mapping: 'a mapping',
  state: 'a Float64Array of length 4',
  position: 'a position in a file',
  sourcePosition: 'a position in a file',
  targetPosition: 'a position in a file',
  target: 'a Uint8Array that is not empty',
  path: 'a path in bytes, of fewer than 4 096 and without a zero byte',
  otherPath: 'a path in bytes, of fewer than 4 096 and without a zero byte',
  buffers: "an array of the mapping's buffers",
  emptied: 'a number of buffers',
  ranges:
    'a Float64Array with descriptor, position and length of up to 1 024 ranges, 16 MiB in all',
  dtype: 'the name of a dtype',
  bytes: 'a Uint8Array of whole elements',
  output:
    'a Float32Array with a value for every element of bytes; to cast, a Uint8Array with room for each',
  from: 'F32, F64, F16 or BF16',
  to: 'F32, F16, BF16, F8_E4M3 or F8_E5M2, and not the dtype of the elements',
  level: 'best, plain or avx2',
};

const READ_INSTEAD: Advice = {
  option: 'storage',
  value: 'read',
  text: "or open the file with { storage: 'read' }",
};

/** Advice for files that cannot be mapped, by the system's code. */
const MAPPING_ADVICE: Readonly<Record<string, string>> = {
  ENOMEM:
    "; raise the limit of the process's addresses (ulimit -v) or of its mappings " +
    '(vm.max_map_count), allow overcommit (vm.overcommit_memory; on Windows, enlarge the page ' +
    `file), ${READ_INSTEAD.text}`,
  EMFILE:
    '; close files that are not needed any more, or raise the limit of descriptors (ulimit -n)',
};

/** `syscall` is the call that failed inside the addon's function, `args` are the function's arguments. */
export function failure(
  result: Failure,
  syscall: string,
  args: Record<string, unknown>,
  path?: string,
): Error {
  if (typeof result === 'number') {
    const code = systemErrorCode(result);
    const advice = (syscall === 'mmap' && MAPPING_ADVICE[code]) || '';
    const subject = path === undefined ? '' : ` '${path}'`;
    const error = new Error(`${code}: ${syscall}${subject} failed${advice}`);
    return Object.assign(
      error,
      { errno: nodeErrno(result), code, syscall },
      path === undefined ? {} : { path },
      advice.includes(READ_INSTEAD.text) ? { advice: [READ_INSTEAD] } : {},
    );
  }
  const actual = args[result];
  const argumentError = typeof actual === 'number' ? argumentRangeError : argumentTypeError;
  return argumentError(result, EXPECTED_ARGUMENT[result] ?? 'valid', actual);
}
