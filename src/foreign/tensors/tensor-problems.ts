/**
 * Tensors of a file that cannot be read: some are left out, others end the reading, several of them reported
 * together.
 */

import { FormatError } from '../../errors/errors.js';

/** A message shows this many problems. */
const SHOWN_PROBLEMS = 10;

/** So many are looked for: a hostile file may have millions. */
const MAX_PROBLEMS = 100;

/** What the error of a tensor takes of memory. */
const PROBLEM_BYTE_LENGTH = 1536;

/**
 * Reads so many tensors one by one. Those that safetensors cannot hold are left out, each with its reason, and the
 * others are read.
 *
 * @param spend counts memory before it is used
 * @throws FormatError of all other problems, or the first hundred of them: the code is that of the first;
 *   one that names no tensor, at once
 */
export function readEach<Item>(
  items: Iterable<Item>,
  count: number,
  read: (item: Item) => void,
  spend: (byteLength: number) => void = () => {},
): FormatError[] {
  const unsupported: FormatError[] = [];
  const problems: FormatError[] = [];
  let done = 0;
  for (const item of items) {
    done++;
    try {
      read(item);
    } catch (error) {
      if (!(error instanceof FormatError) || error.tensor === undefined) throw error;
      spend(PROBLEM_BYTE_LENGTH);
      if (error.code === 'SAFETENSORS_UNSUPPORTED_TENSOR') unsupported.push(error);
      else if (problems.push(error) === MAX_PROBLEMS) break;
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
    first.path === undefined ? {} : { path: first.path },
  );
}
