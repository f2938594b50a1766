/** Pickles of NumPy arrays, as PaddlePaddle saves parameters (`.pdparams`): read as data, by three globals. */

import type { PickleHost } from '../pickle/host.js';
import {
  PickleGlobal,
  PickleList,
  PickleMap,
  type PickleValue,
  Placeholder,
} from '../pickle/values.js';
import type { TorchHost } from './state-dict/builders.js';
import { pickledTensor } from './state-dict/numpy-arrays.js';
import { type TorchTensor, UnsupportedTensor } from './state-dict/values.js';

/** The function for arrays in NumPy 1 and 2. */
const RECONSTRUCT = /^numpy\.(?:core|_core)\.multiarray\._reconstruct$/;

/** The class of arrays, that of their dtypes, and that of the bytes of empty arrays in protocol 2. */
const CLASSES: readonly string[] = ['numpy.ndarray', 'numpy.dtype', '__builtin__.bytes'];

/** Also knows the globals of arrays: what they make is inert. */
export function arrayHost(host: TorchHost): PickleHost {
  return {
    global: (module, name) =>
      RECONSTRUCT.test(`${module}.${name}`) || CLASSES.includes(`${module}.${name}`)
        ? new PickleGlobal(module, name, true)
        : host.global(module, name),
    advice: (globals) => host.advice(globals),
    persistent: (id, at) => host.persistent(id, at),
    build: (target, state, at) => host.build(target, state, at),
    call: (callee, args, at, isNew) => host.call(callee, args, at, isNew),
  };
}

/**
 * Returns the dict with tensors in place of arrays; undefined for a value that is not a dict with arrays. Values deeper
 * than `maxDepth` stay as they are.
 */
export function dictOfArrays(value: PickleValue, maxDepth: number): PickleMap | undefined {
  if (!(value instanceof PickleMap)) return undefined;
  const converted = new Arrays(maxDepth);
  const dict = converted.of(value, 0) as PickleMap;
  return converted.count > 0 ? dict : undefined;
}

/** Replaces arrays; values may contain themselves, and the same array may occur several times. */
class Arrays {
  /** Number of arrays. */
  count = 0;
  readonly #maxDepth: number;
  readonly #done = new Map<PickleValue, PickleValue>();

  constructor(maxDepth: number) {
    this.#maxDepth = maxDepth;
  }

  of(value: PickleValue, depth: number): PickleValue {
    const done = this.#done.get(value);
    if (done !== undefined) return done;
    if (value instanceof Placeholder) {
      return RECONSTRUCT.test(value.global.path) ? this.#array(value) : value;
    }
    if (depth > this.#maxDepth) return value;
    if (value instanceof PickleMap) {
      const map = new PickleMap(value.kind);
      this.#done.set(value, map);
      for (const [key, item] of value) map.set(key, this.of(item, depth + 1));
      return map;
    }
    if (value instanceof PickleList) {
      const list = new PickleList();
      this.#done.set(value, list);
      for (const item of value.items) list.items.push(this.of(item, depth + 1));
      return list;
    }
    return value;
  }

  #array(value: Placeholder): TorchTensor | UnsupportedTensor {
    this.count++;
    const tensor =
      pickledTensor(value) ?? new UnsupportedTensor('a NumPy array of another kind', []);
    this.#done.set(value, tensor);
    return tensor;
  }
}
