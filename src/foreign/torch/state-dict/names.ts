/** Names of tensors: the keys that lead to them, joined by dots. */

import { type ErrorContext, FormatError, quoteName } from '../../../errors/errors.js';
import type { MemoryBudget } from '../../pickle/memory-budget.js';
import type { PickleValue } from '../../pickle/values.js';
import { formatKey } from './format-python.js';
import { TorchGlobal } from './globals.js';

/** A place in a checkpoint: a key in the place before; undefined for the outermost value. */
export interface Place {
  readonly parent: Place | undefined;
  readonly key: PickleValue;
  /** Number of keys that lead here. */
  readonly depth: number;
  /** The keys that lead here, joined by dots. */
  readonly name: string;
}

/** Memory of a place next to its name, whose characters take at most two bytes. */
const PLACE_BYTE_LENGTH = 256;

/**
 * The place of a key within the outer place. Counts the name before making it: keys may be long, and shared.
 *
 * @throws FormatError for a class or function of torch as a key, whose Python text changes between runs
 */
export function placeAt(
  parent: Place | undefined,
  key: PickleValue,
  depth: number,
  memory: MemoryBudget,
  context: ErrorContext,
): Place {
  const nameless = namelessIn(key);
  if (nameless !== undefined) {
    throw new FormatError(
      'SAFETENSORS_INVALID_TORCH_CHECKPOINT',
      `expected keys whose text is a name, found ${nameless.path}`,
      context,
    );
  }
  const text = formatKey(key);
  if (parent === undefined) {
    memory.spend(PLACE_BYTE_LENGTH);
    return { parent, key, depth, name: text };
  }
  memory.spend(PLACE_BYTE_LENGTH + 2 * (parent.name.length + 1 + text.length));
  return { parent, key, depth, name: `${parent.name}.${text}` };
}

/** The keys that lead to a place. */
export function keysOf(place: Place | undefined): PickleValue[] {
  const keys: PickleValue[] = [];
  for (let at = place; at !== undefined; at = at.parent) keys.push(at.key);
  return keys.reverse();
}

function namelessIn(key: PickleValue): TorchGlobal | undefined {
  if (Array.isArray(key)) return key.map(namelessIn).find((found) => found !== undefined);
  return key instanceof TorchGlobal && key.kind !== 'dtype' ? key : undefined;
}

/** Most keys that a message shows. */
const SHOWN_KEYS = 4;

/** The keys that lead to a place, for messages. */
export function showKeys(place: Place | undefined): string {
  const keys = keysOf(place);
  const more = keys.length > SHOWN_KEYS ? `, … ${keys.length} in all` : '';
  return `[${keys.slice(0, SHOWN_KEYS).map(showKey).join(', ')}${more}]`;
}

/** A key as an item of a root, for messages: numbers without quotation marks. */
export function showKey(key: PickleValue): string {
  return typeof key === 'number' ? `${key}` : quoteName(formatKey(key));
}
