/**
 * Values of another realm, as code in a `vm` context, and so under Jest, passes to a library outside of it.
 * `instanceof` is false for all of them.
 */
import { type Context, createContext, runInContext } from 'node:vm';

/** Classes of a DOM for Node that the language lacks, written from scratch. */
const DOM_CLASSES = `
class URL {
  #text;
  constructor(text) { this.#text = text; }
  get href() { return this.#text; }
  get protocol() { return this.#text.slice(0, this.#text.indexOf(':') + 1); }
  get hostname() { return ''; }
  get pathname() { return this.#text.slice('file://'.length); }
}

class AbortSignal {
  aborted = false;
  reason = undefined;
  #listeners = new Set();
  addEventListener(type, listener) { this.#listeners.add(listener); }
  removeEventListener(type, listener) { this.#listeners.delete(listener); }
  throwIfAborted() { if (this.aborted) throw this.reason; }
  abort(reason) {
    this.aborted = true;
    this.reason = reason;
    for (const listener of this.#listeners) listener();
  }
}
`;

const context: Context = createContext({});
runInContext(DOM_CLASSES, context);

/** The value of an expression of the other realm, in which `URL` and `AbortSignal` are classes. */
export function foreign<Value>(expression: string): Value {
  return runInContext(`(${expression})`, context) as Value;
}

/** A URL of the other realm. */
export function foreignUrl(href: string | URL): URL {
  return foreign(`new URL(${JSON.stringify(String(href))})`);
}

/** A signal of the other realm, and its abort function. */
export function foreignAbort(): { signal: AbortSignal; abort: (reason: unknown) => void } {
  const signal = foreign<AbortSignal & { abort(reason: unknown): void }>('new AbortSignal()');
  return { signal, abort: (reason) => signal.abort(reason) };
}
