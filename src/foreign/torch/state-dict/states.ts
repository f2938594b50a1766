/** States that a pickle sets on tensors: attributes besides the values, which are left out. */

import type { MemoryBudget } from '../../pickle/memory-budget.js';
import { PickleList, PickleMap, type PickleValue, Placeholder } from '../../pickle/values.js';
import { isTensor } from './values.js';

/**
 * The dicts whose entries a state sets as attributes: the object's own, and that of the slots of its class. Undefined
 * for a state that torch never writes.
 */
export function attributesIn(state: PickleValue): PickleMap[] | undefined {
  const parts = Array.isArray(state) ? state : [state, null];
  if (parts.length !== 2) return undefined;
  const dicts: PickleMap[] = [];
  for (const part of parts) {
    if (part instanceof PickleMap) dicts.push(part);
    else if (part !== null) return undefined;
  }
  return dicts;
}

/** Memory of a searched value, and of a searched container. */
const ITEM_BYTE_LENGTH = 8;
const HOLDER_BYTE_LENGTH = 64;

/** Finds tensors in attributes, at any depth. Searches shared values, and values without tensors, once. */
export class TensorSearch {
  readonly #known = new Map<PickleMap, boolean>();
  readonly #withoutTensors = new Set<PickleValue>();
  readonly #memory: MemoryBudget;

  /** Counts the memory of all searched values. */
  constructor(memory: MemoryBudget) {
    this.#memory = memory;
  }

  /** Whether an attribute is or contains a tensor. */
  finds(attributes: readonly PickleMap[]): boolean {
    return attributes.some((dict) => {
      const found = this.#known.get(dict) ?? this.#search(dict);
      this.#known.set(dict, found);
      return found;
    });
  }

  #search(dict: PickleMap): boolean {
    const seen = new Set<PickleValue>([dict]);
    const open: PickleValue[] = [dict];
    for (let value = open.pop(); value !== undefined; value = open.pop()) {
      for (const part of memberValues(value)) {
        this.#memory.spend(ITEM_BYTE_LENGTH);
        if (isTensor(part)) return true;
        if (!isHolder(part) || seen.has(part) || this.#withoutTensors.has(part)) continue;
        this.#memory.spend(HOLDER_BYTE_LENGTH);
        seen.add(part);
        open.push(part);
      }
    }
    for (const value of seen) this.#withoutTensors.add(value);
    return false;
  }
}

function isHolder(value: PickleValue): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return value instanceof PickleList || value instanceof PickleMap || value instanceof Placeholder;
}

/** The direct contents of a container; empty for other values. */
function* memberValues(value: PickleValue): Generator<PickleValue, void, void> {
  if (value instanceof PickleMap) {
    for (const [, item] of value) yield item;
  } else if (value instanceof PickleList) yield* value.items;
  else if (Array.isArray(value)) yield* value;
  else if (value instanceof Placeholder) {
    yield* [value.args, value.state];
    if (value.isFilled) yield* [value.items, value.entries];
  }
}
