/** The values of a state dict other than tensors, as data. */

import { FormatError } from '../../../errors/errors.js';
import type { PlainValue, UnknownObject } from '../../../file/source/plain-value.js';
import type { PickleContext } from '../../pickle/limits.js';
import type { MemoryBudget } from '../../pickle/memory-budget.js';
import {
  PickleBytes,
  PickleFloat,
  PickleGlobal,
  PickleList,
  PickleMap,
  PickleSet,
  type PickleValue,
  Placeholder,
} from '../../pickle/values.js';
import { showKey } from './names.js';
import {
  ComplexNumber,
  isTensor,
  TorchDevice,
  TorchSize,
  TorchStorage,
  TorchStorageView,
} from './values.js';

/** Memory of plain values, by estimate. */
const PLAIN_COST = {
  array: 112,
  item: 12,
  map: 320,
  entry: 160,
  complex: 64,
  unknown: 448,
} as const;

/** Lists up to this length are searched at every occurrence. */
const SHORT_LIST_LENGTH = 16;

/** Requests the parts of a value as plain data, one by one, and inserts them. */
type Filling = Generator<PickleValue, void, PlainValue>;

/**
 * Converts a value to plain data. Leaves tensors and storages out of dicts, and puts null for them into lists.
 *
 * @throws FormatError `SAFETENSORS_FOREIGN_LIMIT` when values nest deeper than `maxDepth`, or take more
 *   memory than is left
 */
export function plainValueOf(
  value: PickleValue,
  maxDepth: number,
  memory: MemoryBudget,
  context: PickleContext,
): PlainValue {
  const made = new Map<PickleValue, PlainValue>();
  /**
   * The containers being filled, outermost first. An explicit stack, since values nest as deep as the caller allows.
   */
  const open: { readonly value: PlainValue; readonly filling: Filling }[] = [];
  /** Converts a value; its contents follow. */
  const begin = (part: PickleValue): PlainValue => {
    if (isPlain(part)) return part;
    if (part instanceof PickleFloat) return part.value;
    if (part instanceof PickleBytes) return part.bytes;
    if (part instanceof PickleGlobal) return part.path;
    if (part instanceof TorchDevice) return part.text;
    if (part instanceof ComplexNumber) {
      memory.spend(PLAIN_COST.complex);
      return { real: part.real, imag: part.imag };
    }
    const known = made.get(part);
    if (known !== undefined) return known;
    if (open.length > maxDepth) {
      const message = `values nest deeper than limits.maxDepth allows, ${maxDepth}`;
      throw new FormatError('SAFETENSORS_FOREIGN_LIMIT', message, context);
    }
    /** Note it before making its parts: it may contain itself. */
    const note = <Made extends PlainValue>(result: Made, filling?: Filling): Made => {
      made.set(part, result);
      if (filling !== undefined) open.push({ value: result, filling });
      return result;
    };
    if (part instanceof PickleMap) {
      const map = new Map<PlainValue, PlainValue>();
      return note(map, fillMap(map, part, memory, context));
    }
    if (part instanceof PickleSet) {
      const set = new Set<PlainValue>();
      return note(set, fillSet(set, part, memory));
    }
    if (part instanceof PickleList || Array.isArray(part)) {
      const items: readonly PickleValue[] = Array.isArray(part) ? part : part.items;
      if (!items.every(isPlain)) {
        const array: PlainValue[] = [];
        return note(array, fillArray(array, items, memory));
      }
      if (items instanceof TorchSize) return note(Array.from(items as PlainValue[]));
      // Don't copy lists of millions of numbers, and search long lists once.
      return items.length > SHORT_LIST_LENGTH ? note(items) : items;
    }
    if (!(part instanceof Placeholder)) return null;
    const object = {
      global: part.global.path,
      args: [] as PlainValue[],
      state: null as PlainValue,
      items: [] as PlainValue[],
      entries: new Map<PlainValue, PlainValue>(),
    };
    return note(object, fillUnknown(object, part, memory, context));
  };
  const whole = begin(value);
  let last = whole;
  for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
    const next = top.filling.next(last);
    if (next.done === true) open.pop();
    last = next.done === true ? top.value : begin(next.value);
  }
  return whole;
}

function* fillArray(
  array: PlainValue[],
  items: readonly PickleValue[],
  memory: MemoryBudget,
): Filling {
  memory.spend(PLAIN_COST.array + PLAIN_COST.item * items.length);
  for (const item of items) array.push(isPlain(item) ? item : yield item);
}

function* fillMap(
  map: Map<PlainValue, PlainValue>,
  entries: PickleMap,
  memory: MemoryBudget,
  context: PickleContext,
): Filling {
  memory.spend(PLAIN_COST.map);
  for (const [key, item] of entries) {
    if (isBytesOfTensors(item)) continue;
    memory.spend(PLAIN_COST.entry);
    const plainKey = isPlain(key) ? key : yield key;
    if (map.has(plainKey)) {
      const message = `two keys of a dict that differ in Python are equal here: ${showKey(key)}`;
      throw new FormatError('SAFETENSORS_DUPLICATE_NAME', message, context);
    }
    map.set(plainKey, isPlain(item) ? item : yield item);
  }
}

function* fillSet(set: Set<PlainValue>, items: PickleSet, memory: MemoryBudget): Filling {
  memory.spend(PLAIN_COST.map);
  for (const item of items) {
    memory.spend(PLAIN_COST.entry);
    set.add(isPlain(item) ? item : yield item);
  }
}

/** An {@link UnknownObject} under construction. */
interface UnknownParts {
  readonly args: PlainValue[];
  state: PlainValue;
  readonly items: PlainValue[];
  readonly entries: Map<PlainValue, PlainValue>;
}

function* fillUnknown(
  object: UnknownParts,
  part: Placeholder,
  memory: MemoryBudget,
  context: PickleContext,
): Filling {
  memory.spend(PLAIN_COST.unknown);
  yield* fillArray(object.args, part.args, memory);
  object.state = yield part.state;
  if (!part.isFilled) return;
  yield* fillArray(object.items, part.items.items, memory);
  yield* fillMap(object.entries, part.entries, memory, context);
}

function isPlain(value: PickleValue): value is null | boolean | number | bigint | string {
  return value === null || typeof value !== 'object';
}

function isBytesOfTensors(value: PickleValue): boolean {
  return isTensor(value) || value instanceof TorchStorage || value instanceof TorchStorageView;
}
