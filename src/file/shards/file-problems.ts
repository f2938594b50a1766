/** Turns errors about files into the problems of a report. */

import { absenceIn } from '../../errors/absence.js';
import { adviceOf } from '../../errors/advice.js';
import { FileClosedError, SafetensorsError } from '../../errors/errors.js';
import type { CheckpointProblem } from './verification-report.js';

/** Codes of the system's errors that are not the file's, but the process's or the machine's. */
const OF_THE_PROCESS: readonly unknown[] = ['EMFILE', 'ENFILE', 'ENOMEM'];

/** Whether an error is that of a process or a machine without descriptors or memory. */
export function isOfProcess(error: unknown): boolean {
  return OF_THE_PROCESS.includes(Object(error).code);
}

/** Whether an error is about the file, not about the process that reads it. */
export function isOfFile(error: unknown): error is Error {
  if (error instanceof SafetensorsError) {
    return !(error instanceof FileClosedError) && absenceIn(error) !== 'cache';
  }
  return Object(error).syscall !== undefined && !isOfProcess(error);
}

/**
 * The problem of an error about a file. Our messages begin with the path, system messages with the code; both are
 * removed.
 */
export function problemOf(file: string, error: Error): CheckpointProblem {
  const { code, path, message } = error as NodeJS.ErrnoException;
  const isOwn = error instanceof SafetensorsError;
  const tensor = isOwn ? (error.tensor ?? null) : null;
  const start = `${isOwn ? path : code}: `;
  const text = message.startsWith(start) ? message.slice(start.length) : message;
  const advice = adviceOf(error);
  const problem = { file, tensor, code: String(code), message: text };
  return advice.length === 0 ? problem : { ...problem, advice };
}
