/** What is wrong with a checkpoint: as data, and as one error. */

import { FormatError, SafetensorsError } from '../errors/errors.js';

/** A message shows this many problems. */
const SHOWN_VERIFICATION_PROBLEMS = 20;

/**
 * What was looked at: `headers`; `index` where there is one; `hashes` that files claim; `checksums` in archives of
 * torch and NumPy.
 */
export type CheckpointCheck = 'headers' | 'index' | 'hashes' | 'checksums';

/** Something that is wrong with a checkpoint. */
export interface CheckpointProblem {
  /**
   * The file, as the index names it; the index or the only file by its own name. Of what could not be opened by a
   * function its path or address.
   */
  readonly file: string;
  /** The tensor; null where the file as a whole is wrong. */
  readonly tensor: string | null;
  /** As errors of this package have it, or the system's, such as `ENOENT`. */
  readonly code: string;
  /** What was expected and what was found, without the code. */
  readonly message: string;
}

/** What an error says is wrong with a file. Those of the system begin with their code. */
export function problemOf(file: string, error: Error): CheckpointProblem {
  const { code, message } = error as NodeJS.ErrnoException;
  const tensor = error instanceof SafetensorsError ? (error.tensor ?? null) : null;
  return { file, tensor, code: String(code), message: message.replace(`${code}: `, '') };
}

/** What was expected, by the code of the error. */
const EXPECTED = {
  SAFETENSORS_INDEX_MISMATCH: 'index and shards to agree',
  SAFETENSORS_CHECKSUM_MISMATCH: 'bytes of which the checksums are',
} as const;

/**
 * The files of a checkpoint do not agree with each other or cannot be read, or those of torch or NumPy have other
 * bytes than their checksums say. The message shows the first problems.
 *
 * @example
 * ```ts
 * await saveFile('my-model/model-00001-of-00002.safetensors', {});
 * try {
 *   await openCheckpoint('my-model').verify();
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

  /** `path` is that of the index, or of the only file. */
  constructor(
    problems: readonly CheckpointProblem[],
    path: string,
    code: VerificationError['code'] = 'SAFETENSORS_INDEX_MISMATCH',
  ) {
    const shown = problems.slice(0, SHOWN_VERIFICATION_PROBLEMS).map(problemText).join('; ');
    const more = problems.length - SHOWN_VERIFICATION_PROBLEMS;
    const rest = more > 0 ? `; and ${more} more` : '';
    const count = problems.length === 1 ? '1 problem' : `${problems.length} problems`;
    super(code, `expected ${EXPECTED[code]}, found ${count}: ${shown}${rest}`, { path });
    this.problems = problems;
  }
}

function problemText({ code, message }: CheckpointProblem): string {
  return code.startsWith('SAFETENSORS_') ? message : `${code}: ${message}`;
}

// As in `errors.ts`: bundlers that minify give it a short name.
Object.defineProperty(VerificationError, 'name', { value: 'VerificationError' });
