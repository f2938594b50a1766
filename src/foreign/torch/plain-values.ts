/** The values beside the tensors, as plain data. */

import { ForeignFormatError } from '../../errors/errors.js';
import type { PickleContext } from '../pickle/limits.js';
import type { MemoryBudget } from '../pickle/memory-budget.js';
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

/** What plain values take of memory, by estimate. */
const COST = {
  array: 112,
  item: 12,
  map: 320,
  entry: 160,
  complex: 64,
  unknown: 448,
} as const;

/** Lists up to this length are looked through each time they are met. */
const SHORT_LENGTH = 16;

/** Makes plain data of a value. Tensors and storages are left out of dicts; in lists there is null. */
export function plainValueOf(
  value: PickleValue,
  maxDepth: number,
  memory: MemoryBudget,
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
    const children = (items: readonly PickleValue[], into: PlainValue[]): PlainValue[] => {
      memory.spend(COST.array + COST.item * items.length);
      for (const item of items) into.push(plain(item, depth + 1));
      return into;
    };
    const entries = (map: PickleMap, into: Map<PlainValue, PlainValue>): typeof into => {
      memory.spend(COST.map);
      for (const [key, item] of map) {
        if (isBytesOfTensors(item)) continue;
        memory.spend(COST.entry);
        into.set(plain(key, depth + 1), plain(item, depth + 1));
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
    if (part instanceof ComplexNumber) {
      memory.spend(COST.complex);
      return { real: part.real, imag: part.imag };
    }
    if (part instanceof PickleMap) return entries(part, note(new Map()));
    if (part instanceof PickleSet) {
      const items = [...part];
      memory.spend(COST.map + COST.entry * items.length);
      return new Set(children(items, []));
    }
    if (part instanceof PickleList || Array.isArray(part)) {
      const items: readonly PickleValue[] = Array.isArray(part) ? part : part.items;
      // Lists of millions of numbers are not copied: the pickle's values are used by nobody else.
      if (!items.every(isPlain)) return children(items, note([]));
      // Long ones are looked through once.
      return items.length > SHORT_LENGTH ? note(items) : items;
    }
    if (!(part instanceof Placeholder)) return null;
    memory.spend(COST.unknown);
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
