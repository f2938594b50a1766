/** The values beside the tensors, as plain data. */

import { ForeignFormatError } from '../../errors/errors.js';
import type { PickleContext } from '../pickle/limits.js';
import {
  PickleBytes,
  PickleFloat,
  PickleGlobal,
  PickleList,
  PickleMap,
  PickleSet,
  type PickleValue,
  Placeholder,
} from '../pickle/values.js';
import { ComplexNumber, isTensor, TorchStorage, TorchStorageView } from './values.js';

/** One of Python's complex numbers. */
export interface ComplexValue {
  /** The real part. */
  readonly real: number;
  /** The imaginary part. */
  readonly imag: number;
}

/** What an unknown global would have made: nothing of it was run. */
export interface UnknownObject {
  /** Module and name of the class or function, such as `argparse.Namespace`. */
  readonly global: string;
  /** What it was to be called with. */
  readonly args: readonly PlainValue[];
  /** The state that it was to be given, such as its attributes; null when there was none. */
  readonly state: PlainValue;
  /** What was to be appended to it. */
  readonly items: readonly PlainValue[];
  /** What was to be set in it. */
  readonly entries: ReadonlyMap<PlainValue, PlainValue>;
}

/**
 * A value of a checkpoint as plain data. Dicts are Maps, lists and tuples arrays, integers beyond 2^53
 * bigints; dtypes, devices and layouts are texts such as `torch.float32`. A value may hold itself.
 */
export type PlainValue =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | readonly PlainValue[]
  | ReadonlyMap<PlainValue, PlainValue>
  | ReadonlySet<PlainValue>
  | ComplexValue
  | UnknownObject;

/** Makes plain data of a value. Tensors and storages are left out of dicts; in lists there is null. */
export function plainValueOf(
  value: PickleValue,
  maxDepth: number,
  context: PickleContext,
): PlainValue {
  const made = new Map<PickleValue, PlainValue>();
  const plain = (part: PickleValue, depth: number): PlainValue => {
    if (part === null || typeof part !== 'object') return part;
    if (depth > maxDepth) {
      const message = `values nest deeper than maxDepth allows, ${maxDepth}`;
      throw new ForeignFormatError('SAFETENSORS_FOREIGN_LIMIT', message, context);
    }
    const known = made.get(part);
    if (known !== undefined) return known;
    const children = (items: Iterable<PickleValue>, into: PlainValue[]): PlainValue[] => {
      for (const item of items) into.push(plain(item, depth + 1));
      return into;
    };
    const entries = (map: PickleMap, into: Map<PlainValue, PlainValue>): typeof into => {
      for (const [key, item] of map) {
        if (!isBytesOfTensors(item)) into.set(plain(key, depth + 1), plain(item, depth + 1));
      }
      return into;
    };
    /** Noted before its parts are made: one of them may be itself. */
    const note = <Made extends PlainValue>(result: Made): Made => {
      made.set(part, result);
      return result;
    };
    if (part instanceof PickleFloat) return part.value;
    if (part instanceof PickleBytes) return part.bytes;
    if (part instanceof PickleGlobal) return part.path;
    if (part instanceof ComplexNumber) return { real: part.real, imag: part.imag };
    if (part instanceof PickleMap) return entries(part, note(new Map()));
    if (part instanceof PickleSet) return new Set(children(part, []));
    // Lists of millions of numbers are not copied: the pickle's values are used by nobody else.
    if (part instanceof PickleList && part.items.every(isPlain)) return note(part.items);
    if (part instanceof PickleList) return children(part.items, note([]));
    if (Array.isArray(part)) return children(part, note([]));
    if (!(part instanceof Placeholder)) return null;
    const object = {
      global: part.global.path,
      args: [] as PlainValue[],
      state: null as PlainValue,
      items: [] as PlainValue[],
      entries: new Map<PlainValue, PlainValue>(),
    };
    note(object);
    children(part.args, object.args);
    object.state = plain(part.state, depth + 1);
    if (part.isFilled) {
      children(part.items.items, object.items);
      entries(part.entries, object.entries);
    }
    return object;
  };
  return plain(value, 0);
}

function isPlain(value: PickleValue): value is null | boolean | number | bigint | string {
  return value === null || typeof value !== 'object';
}

function isBytesOfTensors(value: PickleValue): boolean {
  return isTensor(value) || value instanceof TorchStorage || value instanceof TorchStorageView;
}
