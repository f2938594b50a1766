/** Makes an input smaller while its result stays the same. */
import type { Form } from './target.js';

/** Milliseconds for one input: it is good enough by then. */
const MAX_MILLISECONDS = 10_000;

/** The smallest input found for which `isSame` holds, as it does for the first. */
export async function minimise(
  first: Buffer,
  form: Form,
  isSame: (input: Buffer) => Promise<boolean>,
): Promise<Buffer> {
  const began = performance.now();
  let smallest = first;
  for (let isSmaller = true; isSmaller; ) {
    isSmaller = false;
    for (const input of form.reductions(smallest)) {
      if (performance.now() - began > MAX_MILLISECONDS) return smallest;
      if (!isPlainer(input, smallest) || !(await isSame(input))) continue;
      smallest = input;
      isSmaller = true;
      break;
    }
  }
  return smallest;
}

/** Shorter, or of the same length and sorted before it, so that minimising ends. */
function isPlainer(input: Buffer, other: Buffer): boolean {
  if (input.length !== other.length) return input.length < other.length;
  return Buffer.compare(input, other) < 0;
}
