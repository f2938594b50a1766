/**
 * Work on long texts in slices: each `yield` is a place where the caller may let the event loop turn. Who
 * has no need to do so calls `inOneGo`.
 */

/** Work that is not finished before its generator returns. */
export type Slices<Result> = Generator<undefined, Result, unknown>;

/** Entries of a text in a slice: some 0.1 ms of work, 3 ms before the engine has compiled it. */
export const SLICE_SIZE = 256;

/** Does all of the work now. */
export function inOneGo<Result>(work: Slices<Result>): Result {
  let next = work.next();
  while (next.done !== true) next = work.next();
  return next.value;
}
