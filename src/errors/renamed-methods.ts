/** Methods that had another name on earlier pages, or have one in Python: calling one says the name here. */

import { isIterable } from './brand-checks.js';

interface Class {
  readonly name: string;
  readonly prototype: object;
}

/**
 * Gives a class methods of the old names, hidden from loops, that throw a TypeError `ERR_METHOD_NOT_IMPLEMENTED`
 * with the new name.
 *
 * @param renamed new names by old ones
 */
export function renameMethods(type: Class, renamed: Readonly<Record<string, string>>): void {
  for (const [old, now] of Object.entries(renamed)) refuse(type, old, `it is ${now} now`);
}

/**
 * Does the same for methods that Python's handle has under these names. A method that is looped over without a call,
 * `for (const name of file.keys)`, says so.
 *
 * @param names names here by those of Python
 */
export function hintPythonMethods(type: Class, names: Readonly<Record<string, string>>): void {
  for (const [old, here] of Object.entries(names)) refuse(type, old, `it is ${here} here`);
  const keys: unknown = Reflect.get(type.prototype, 'keys');
  if (typeof keys !== 'function' || isIterable(keys)) return;
  const value = (): never => fail(`${type.name}.keys is a method; call it: keys()`);
  Object.defineProperty(keys, Symbol.iterator, { value, configurable: true });
}

/** Names of methods of Python's handle, and those here. */
export const PYTHON_METHODS = {
  get_tensor: 'getTensor',
  get_slice: 'getSlice',
  offset_keys: 'offsetKeys',
} as const;

/** Names of methods of torch's and NumPy's tensors, and what does the same here. */
export const PYTHON_TENSOR_METHODS = {
  numpy: 'data',
  tolist: 'toFloat32',
  float: 'toFloat32',
  clone: 'copy',
  numel: 'elementCount',
} as const;

function refuse(type: Class, name: string, hint: string): void {
  const value = (): never => fail(`${type.name} has no method ${name}; ${hint}`);
  Object.defineProperty(type.prototype, name, { value, enumerable: false, configurable: true });
}

function fail(message: string): never {
  throw Object.assign(new TypeError(message), { code: 'ERR_METHOD_NOT_IMPLEMENTED' });
}
