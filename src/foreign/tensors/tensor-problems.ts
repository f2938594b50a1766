/**
 * Tensors of a file that cannot be read: some are left out, others end the reading, several of them reported
 * together.
 */

import { adviceOf } from '../../errors/advice.js';
import { FormatError } from '../../errors/errors.js';

/** A message shows this many problems. */
const SHOWN_PROBLEMS = 10;

/** Most problems to look for: a hostile file may have millions. */
const MAX_PROBLEMS = 100;

/** Memory of a tensor's error, in bytes. */
const PROBLEM_BYTE_LENGTH = 1536;

/**
 * Reads `count` tensors one by one. Leaves out those that safetensors cannot hold, for which `read` returns the reason.
 *
 * @param spend counts memory before it is used
 * @throws FormatError for all other problems, or the first hundred, with the code of the first; for a problem without
 *   a tensor, at once
 */
export function readEach<Item>(
  items: Iterable<Item>,
  count: number,
  read: (item: Item) => FormatError | undefined,
  spend: (byteLength: number) => void = () => {},
): FormatError[] {
  const unsupported: FormatError[] = [];
  const problems: FormatError[] = [];
  let done = 0;
  for (const item of items) {
    done++;
    try {
      const problem = read(item);
      if (problem === undefined) continue;
      spend(PROBLEM_BYTE_LENGTH);
      unsupported.push(problem);
    } catch (error) {
      if (!(error instanceof FormatError) || error.tensor === undefined) throw error;
      spend(PROBLEM_BYTE_LENGTH);
      if (problems.push(error) === MAX_PROBLEMS) break;
    }
  }
  const [first, ...others] = problems;
  if (first === undefined) return unsupported;
  throw others.length === 0 && done === count
    ? first
    : joinedProblem(first, problems, count - done);
}

/** One error for all, each shown with its tensor. */
function joinedProblem(
  first: FormatError,
  problems: readonly FormatError[],
  notRead: number,
): FormatError {
  const shown = problems.slice(0, SHOWN_PROBLEMS).map(({ message }) => `\n- ${message}`);
  const left = problems.length - shown.length;
  const more = left === 0 ? '' : `\n- and ${left} more`;
  const end = notRead === 0 ? '' : `; ${notRead} more were not looked at`;
  return new FormatError(
    first.code,
    `${problems.length} tensors cannot be read${end}:${shown.join('')}${more}`,
    { path: first.path, advice: adviceOf(...problems.slice(0, SHOWN_PROBLEMS)) },
  );
}
