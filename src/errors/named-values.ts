/** Values by name, in every form in which callers give tensors and metadata. */

import { argumentTypeError, requireString } from './arguments.js';
import { isIterable, isPlainObject, tagOf } from './brand-checks.js';
import { quoteName } from './errors.js';

/** A Map, an iterable of pairs, or a plain object with its own enumerable keys. */
export type NamedValues<Value> =
  | Iterable<readonly [name: string, value: Value]>
  | Readonly<Record<string, Value>>;

/**
 * Yields the pairs in the order given; a name may repeat. `what` is the argument's name.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for other values, and for a name that is not a string
 */
export function* pairsOf<Value>(
  values: NamedValues<Value>,
  what: string,
): Generator<readonly [name: string, value: Value], void, void> {
  if (!isIterable(values)) {
    if (!isPlainObject(values)) throw notNamedValues(what, values);
    // Of many properties `entries` takes twice as long.
    for (const name of Object.keys(values)) yield [name, values[name] as Value];
    return;
  }
  requireNoProperties(values, what);
  for (const pair of values) {
    if (!Array.isArray(pair) || pair.length !== 2) {
      throw argumentTypeError(`an item of ${what}`, 'a [name, value] pair', pair);
    }
    const [name] = pair;
    requireString(`a name of ${what}`, name);
    yield pair;
  }
}

/** `tensors['a'] = value` gives a Map a property that nobody would see. */
function requireNoProperties(values: Iterable<unknown>, what: string): void {
  if (tagOf(values) !== 'Map') return;
  const [name] = Object.keys(values);
  if (name === undefined) return;
  const quoted = quoteName(name);
  const message = `${what} is a Map with a property ${quoted}; write set(${quoted}, value) instead`;
  throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_ARG_VALUE' });
}

function notNamedValues(what: string, values: unknown): TypeError {
  const expected =
    what === 'tensors'
      ? 'an open checkpoint, a Map, an iterable of [name, value] pairs or a plain object'
      : 'a Map, an iterable of [name, value] pairs or a plain object';
  const isPromise = typeof Object(values).then === 'function';
  return argumentTypeError(what, expected, values, isPromise ? '; await it' : '');
}
