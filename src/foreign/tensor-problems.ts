/** Tensors of a file that cannot be read: all of them are found before one is reported. */

import { ForeignFormatError } from '../errors/errors.js';

/** A message shows this many problems. */
const SHOWN_PROBLEMS = 20;

/** So many are looked for: a hostile file may have millions. */
const MAX_PROBLEMS = 10_000;

/** The problems of a file, in its order. */
export class TensorProblems {
  readonly #found: ForeignFormatError[] = [];

  /** What was found so far, with the tensor's name each. */
  get found(): readonly ForeignFormatError[] {
    return this.#found;
  }

  /**
   * Reads a tensor; what is wrong with it is noted, and gives undefined.
   *
   * @throws ForeignFormatError of all problems, when they are too many to look for others
   */
  collect<Result>(read: () => Result): Result | undefined {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof ForeignFormatError)) throw error;
      this.#found.push(error);
      if (this.#found.length >= MAX_PROBLEMS) throw problemOf(this.#found);
      return undefined;
    }
  }
}

/** Whether the tensor alone is not to be had, and the rest of its file is. */
export function isLeftOut({ code }: ForeignFormatError): boolean {
  return code === 'SAFETENSORS_UNSUPPORTED_TENSOR';
}

/** Throws all problems as one error. */
export function throwProblems(problems: readonly ForeignFormatError[]): void {
  if (problems.length > 0) throw problemOf(problems);
}

/** One problem is the error itself; of several each is shown with its tensor. The code is that of the first. */
function problemOf(problems: readonly ForeignFormatError[]): ForeignFormatError {
  const [first, ...others] = problems as [ForeignFormatError, ...ForeignFormatError[]];
  if (others.length === 0) return first;
  const shown = problems.slice(0, SHOWN_PROBLEMS).map(({ message }) => `\n- ${message}`);
  const left = problems.length - shown.length;
  const more = left === 0 ? '' : `\n- and ${left} more`;
  const few = problems.length < MAX_PROBLEMS ? '' : ' or more';
  return new ForeignFormatError(
    first.code,
    `${problems.length}${few} tensors cannot be read:${shown.join('')}${more}`,
    first.path === undefined ? {} : { path: first.path },
  );
}
