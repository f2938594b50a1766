/** Shows objects of this package in `console.log` and Node's REPL: their facts, never their data. */

/** The method that Node, Bun and Deno call to show an object. */
export const INSPECT: unique symbol = Symbol.for('nodejs.util.inspect.custom') as never;

/** Shows a value, as `util.inspect` does. */
export type Inspect = (value: unknown, options?: object) => string;

/** Returns a class name with facts, as `inspect` shows an object; the name alone when nested too deep. */
export function showInfo(
  name: string,
  facts: object,
  depth: number,
  options: object,
  inspect: Inspect,
): string {
  return depth < 0 ? `[${name}]` : `${name} ${inspect(facts, options)}`;
}
