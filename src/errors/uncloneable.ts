/** The error message for posting an open file or a tensor to another thread. */

/**
 * The value of the own property `uncloneable` of an object that cannot be cloned. Most of such an object is
 * private, which cloning leaves out: `postMessage` and `structuredClone` would give an empty one. They refuse
 * symbols, by a `DataCloneError` that has the symbol's text in V8 (Node, Deno, Chromium). A getter that throws
 * would have a better message, but also stop `{ ...tensor }` and comparisons of test runners. V8 leaves out the
 * middle of a text of more than 120 characters.
 */
export function uncloneable(what: string, instead: string): symbol {
  return Symbol(`${what} belongs to its thread: ${instead}`);
}
