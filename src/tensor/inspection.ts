/** How `console.log` and Node's REPL show objects of this package: what they are, never their data. */

/** The name by which Node, Bun and Deno ask an object how to show it. */
export const INSPECT: unique symbol = Symbol.for('nodejs.util.inspect.custom') as never;

/** Shows a value, as `util.inspect` does. */
export type Inspect = (value: unknown, options?: object) => string;

/** The name of a class and facts, as `inspect` shows an object; the name alone where it is too deep. */
export function showFacts(
  name: string,
  facts: object,
  depth: number,
  options: object,
  inspect: Inspect,
): string {
  return depth < 0 ? `[${name}]` : `${name} ${inspect(facts, options)}`;
}
