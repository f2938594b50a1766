/** The problems of a checkpoint: as data, and as one error. */

import { FormatError, SafetensorsError } from '../../errors/errors.js';
import {
  type CheckpointProblem,
  reportOf,
  type VerificationReport,
} from './verification-report.js';

/** A message shows this many problems. */
const SHOWN_VERIFICATION_PROBLEMS = 20;

/** Codes of errors that are not the file's, but the process's or the machine's. */
const OF_THE_PROCESS: readonly unknown[] = [
  'EMFILE',
  'ENFILE',
  'ENOMEM',
  'SAFETENSORS_FILE_CLOSED',
  'SAFETENSORS_NOT_IN_CACHE',
];

/** Whether an error is about the file, not about the process that reads it. */
export function isOfFile(error: unknown): error is Error {
  const { syscall, code } = Object(error) as NodeJS.ErrnoException;
  const isKnown = error instanceof SafetensorsError || syscall !== undefined;
  return isKnown && !OF_THE_PROCESS.includes(code);
}

/**
 * The text of an error about a file. Our messages begin with the path, system messages with the code; both are
 * removed.
 */
export function problemOf(file: string, error: Error): CheckpointProblem {
  const { code, path, message } = error as NodeJS.ErrnoException;
  const isOwn = error instanceof SafetensorsError;
  const tensor = isOwn ? (error.tensor ?? null) : null;
  const start = `${isOwn ? path : code}: `;
  const text = message.startsWith(start) ? message.slice(start.length) : message;
  return { file, tensor, code: String(code), message: text };
}

/** The expectation, by the code of the error. */
const EXPECTED = {
  SAFETENSORS_INDEX_MISMATCH: 'index and shards to agree',
  SAFETENSORS_CHECKSUM_MISMATCH: 'bytes that match their checksums',
} as const;

/**
 * The files of a checkpoint do not agree with each other or cannot be read, or those of torch or NumPy have other
 * bytes than their checksums say. The message shows the first problems.
 *
 * @example
 * ```ts
 * await saveFile('my-model/model-00001-of-00002.safetensors', {});
 * try {
 *   await safeOpen('my-model').verify();
 * } catch (error) {
 *   if (error instanceof VerificationError) console.log(error.problems.map(({ tensor }) => tensor));
 *   // → [ 'embed.weight', null ]
 * }
 * ```
 */
export class VerificationError extends FormatError {
  declare readonly code: 'SAFETENSORS_INDEX_MISMATCH' | 'SAFETENSORS_CHECKSUM_MISMATCH';
  /** All problems. */
  readonly problems: readonly CheckpointProblem[];
  /** The checks, and which tensors were compared. */
  readonly report: VerificationReport;

  /** `path` is that of the index, or of the only file. */
  constructor(
    problems: readonly CheckpointProblem[],
    path: string,
    code: VerificationError['code'] = 'SAFETENSORS_INDEX_MISMATCH',
    report: VerificationReport = reportOf(['headers'], problems, []),
  ) {
    const shown = problems.slice(0, SHOWN_VERIFICATION_PROBLEMS).map(problemText).join('; ');
    const more = problems.length - SHOWN_VERIFICATION_PROBLEMS;
    const rest = more > 0 ? `; and ${more} more` : '';
    const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
    super(code, `expected ${EXPECTED[code]}, found ${count}: ${shown}${rest}`, { path });
    this.problems = problems;
    this.report = report;
  }
}

function problemText({ file, code, message }: CheckpointProblem): string {
  const text = code.startsWith('SAFETENSORS_') ? message : `${code}: ${message}`;
  return `${file}: ${text}`;
}

// As in `errors.ts`: bundlers that minify give it a short name.
Object.defineProperty(VerificationError, 'name', { value: 'VerificationError' });
