/** Methods with another name in Python: calling one throws an error with the name in this package. */

import { isIterable } from './brand-checks.js';

interface Class {
  readonly name: string;
  readonly prototype: object;
}

/**
 * Adds non-enumerable methods with Python names that throw a TypeError `ERR_METHOD_NOT_IMPLEMENTED` with the name in
 * this package. Also makes `for (const name of file.keys)`, a loop without the call, throw with a hint.
 *
 * @param names names in this package by their Python names
 */
export function hintPythonMethods(type: Class, names: Readonly<Record<string, string>>): void {
  for (const [python, here] of Object.entries(names)) {
    const value = (): never => fail(`${type.name} has no method ${python}; it is ${here} here`);
    Object.defineProperty(type.prototype, python, { value, enumerable: false, configurable: true });
  }
  const keys: unknown = Reflect.get(type.prototype, 'keys');
  if (typeof keys !== 'function' || isIterable(keys)) return;
  const value = (): never => fail(`${type.name}.keys is a method; call it: keys()`);
  Object.defineProperty(keys, Symbol.iterator, { value, configurable: true });
}

/** Methods of Python's `safe_open` handle, and their names in this package. */
export const PYTHON_METHODS = {
  get_tensor: 'getTensor',
  get_slice: 'getSlice',
  offset_keys: 'offsetKeys',
} as const;

/** Methods of PyTorch and NumPy tensors, and their equivalents in this package. */
export const PYTHON_TENSOR_METHODS = {
  numpy: 'data',
  tolist: 'toFloat32',
  float: 'toFloat32',
  clone: 'copy',
  numel: 'elementCount',
} as const;

function fail(message: string): never {
  throw Object.assign(new TypeError(message), { code: 'ERR_METHOD_NOT_IMPLEMENTED' });
}
