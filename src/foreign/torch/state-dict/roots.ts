/** Finds the state dict of a checkpoint and its tensors. */

import type { Advice } from '../../../errors/advice.js';
import { FormatError } from '../../../errors/errors.js';
import type { RootKeys } from '../../../file/source/plain-value.js';
import type { PickleContext } from '../../pickle/limits.js';
import type { MemoryBudget } from '../../pickle/memory-budget.js';
import { PickleList, PickleMap, type PickleValue, Placeholder } from '../../pickle/values.js';
import { readEach } from '../../tensors/tensor-problems.js';
import { formatKey } from './format-python.js';
import { isModule, registeredIn } from './modules.js';
import { type Place, placeAt, showKey, showKeys } from './names.js';
import { type AnyTensor, isTensor, partsOf, UnsupportedTensor } from './values.js';

/** A tensor and where it is. */
interface PlacedTensor {
  readonly place: Place | undefined;
  readonly tensor: AnyTensor;
  /** The kind of its container: a dict or the outermost value, a list or tuple, an unknown object. */
  readonly within: 'map' | 'list' | 'object';
}

/** Lists up to this length are searched at every occurrence. */
const SHORT_SEQUENCE_LENGTH = 16;

/** Most candidates that a message lists. */
const SHOWN_CANDIDATES = 12;

/**
 * All tensors in a value, in the order of its keys. Walks a list, tuple or dict with several places once; a tensor
 * counts under each of its names.
 *
 * @throws FormatError `SAFETENSORS_FOREIGN_LIMIT` when values nest deeper than `maxDepth`, or names take
 *   more memory than is left
 */
export function tensorsIn(
  root: PickleValue,
  maxDepth: number,
  memory: MemoryBudget,
  context: PickleContext,
): PlacedTensor[] {
  const found: PlacedTensor[] = [];
  if (isTensor(root)) return [{ place: undefined, tensor: root, within: 'map' }];
  const seen = new Set<PickleValue>([root]);
  /** Modules that are being walked through: a module may occur under several names. */
  const openModules = new Set<PickleValue>([root]);
  const open: OpenContainer[] = [];
  const isWalked = (value: PickleValue): boolean =>
    isModule(value) ? openModules.has(value) : seen.has(value);
  const outermost = isContainer(root) ? childrenOf(root) : undefined;
  if (outermost !== undefined) {
    open.push({
      value: root,
      place: undefined,
      isMap: true,
      owner: undefined,
      children: outermost,
    });
  }
  for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
    const next = top.children.next();
    if (next.done === true) {
      open.pop();
      openModules.delete(top.value);
      continue;
    }
    const [key, value, owner = top.owner] = next.value;
    if (!isObject(value)) continue;
    if (isTensor(value)) {
      const place = placeAt(top.place, key, open.length, memory, context);
      const tensor = owner === undefined ? value : tensorWithin(owner, value);
      const within = owner !== undefined ? 'object' : top.isMap ? 'map' : 'list';
      found.push({ place, tensor, within });
    } else if (isContainer(value) && !isShortAndPlain(value) && !isWalked(value)) {
      seen.add(value);
      openModules.add(value);
      if (open.length >= maxDepth) throw tooDeep(maxDepth, context);
      const children = childrenOf(value);
      if (children === undefined) continue;
      const place = placeAt(top.place, key, open.length, memory, context);
      open.push({ value, place, isMap: isMapping(value), owner, children });
    }
  }
  return found;
}

/** A value to walk through. */
interface OpenContainer {
  readonly value: PickleValue;
  readonly place: Place | undefined;
  readonly isMap: boolean;
  /** The unknown object whose arguments or state contain it. */
  readonly owner: Placeholder | undefined;
  readonly children: Iterator<Child>;
}

/** A key, a value, and the unknown object whose argument or attribute this is. */
type Child = readonly [PickleValue, PickleValue, Placeholder?];

function isMapping(value: PickleValue): boolean {
  return (
    value instanceof PickleMap ||
    isModule(value) ||
    (value instanceof Placeholder && value.isFilled && value.entries.size > 0)
  );
}

/** Refuses a tensor inside an unknown object: it would be lost without that object. */
function tensorWithin({ global }: Placeholder, tensor: AnyTensor): UnsupportedTensor {
  const found = `a tensor in an object of ${global.path}, which is not built; save the tensor under its own key`;
  return new UnsupportedTensor(found, partsOf(tensor));
}

function isContainer(value: PickleValue): boolean {
  return (
    value instanceof Placeholder ||
    Array.isArray(value) ||
    value instanceof PickleList ||
    value instanceof PickleMap
  );
}

/** Keys and values of a container that may hold tensors; undefined if it holds only numbers and texts. */
function childrenOf(value: PickleValue): Iterator<Child> | undefined {
  if (value instanceof PickleMap) return value.size === 0 ? undefined : value[Symbol.iterator]();
  if (isModule(value)) return registeredIn(value);
  if (value instanceof Placeholder) return attributesOf(value);
  const items = value instanceof PickleList ? value.items : value;
  // Most arrays are shapes, and this passes millions of numbers fast.
  const hasObjects = Array.isArray(items) && items.some((item) => isObject(item));
  return hasObjects ? items.entries() : undefined;
}

/** Whether a list or tuple holds nothing of interest and is short enough to check again each time. */
function isShortAndPlain(value: PickleValue): boolean {
  const items = value instanceof PickleList ? value.items : value;
  return Array.isArray(items) && items.length <= SHORT_SEQUENCE_LENGTH && !items.some(isObject);
}

/**
 * Entries and items of an unknown kind of dict or list, such as a defaultdict, count as its own; arguments and state
 * belong to the object.
 */
function* attributesOf(object: Placeholder): Generator<Child, void, void> {
  const { args, state } = object;
  // The attributes of a ModelOutput repeat its entries.
  const repeated = new Set<PickleValue>();
  if (object.isFilled) {
    for (const [key, value] of object.entries) {
      if (isTensor(value)) repeated.add(value);
      yield [key, value];
    }
    yield* object.items.items.entries();
  }
  const attributes = state instanceof PickleMap ? state : ([['state', state]] as const);
  for (const [key, value] of [...args.entries(), ...attributes]) {
    if (!repeated.has(value)) yield [key, value, object];
  }
}

function isObject(value: PickleValue): value is PickleValue & object {
  return typeof value === 'object' && value !== null;
}

/** Keys of dicts that are a model's state dict. */
const MODEL_KEY =
  /^(state_?dict|model|module|ema|net(work)?|params|weights|string_to_param)(_(state_?dict|state|ema|params|weights))*$|^(model|ema|module|net)_(state|state_?dict|model|module|net|params|weights)(_ema)?$/i;

/** Keys of states that belong to the training, not to the model. */
const TRAINING_KEY =
  /(^|_)(rng|random)(_|$)|rng_?states?|optim|scheduler|grad_?scaler|^(amp|scaler|loops|callbacks|lr_sched\w*)$/i;

/**
 * The keys of the state dict, decided from the outermost value inwards. States of the training never win; state dicts
 * under a model's key win over the rest. Else the value itself if it has tensors under its own keys; else its only
 * part with tensors.
 *
 * @throws FormatError `SAFETENSORS_AMBIGUOUS_ROOT` with the candidates
 */
export function chooseRoot(
  root: PickleValue,
  tensors: readonly PlacedTensor[],
  context: PickleContext,
): RootKeys {
  const isOnlyLists = tensors.every(({ within }) => within === 'list');
  let counted = isOnlyLists ? tensors : tensors.filter(({ within }) => within !== 'list');
  const keys: (string | number)[] = [];
  let isModel = false;
  for (let value: PickleValue | undefined = root; value !== undefined; ) {
    if (counted.length === 0 || !isTransparent(value)) return keys;
    const all = partsAt(counted, keys.length);
    const parts = all.filter(({ key }) => isModel || !isOf(TRAINING_KEY, key));
    const models = parts.filter(({ key, isTensor }) => !isTensor && isOf(MODEL_KEY, key));
    const own = parts.filter(({ isTensor }) => isTensor);
    const inner = parts.filter(({ isTensor }) => !isTensor);
    const [chosen, ...others] = models.length > 0 ? models : inner;
    if (parts.length === 0) throw ambiguous('only states of the training', all, context);
    if (models.length === 0) {
      const isTraining = parts.length < all.length;
      // A part of a model has separate parts.
      if (own.length > 0 && (inner.length === 0 || !isTraining)) return keys;
      if (isModel && others.length > 0) return keys;
      if (own.length > 0) throw ambiguous('several', parts, context);
    }
    if (chosen === undefined) return keys;
    if (others.length > 0) throw ambiguous('several', [chosen, ...others], context);
    isModel ||= models.length > 0;
    const { key } = chosen;
    keys.push(typeof key === 'number' ? key : formatKey(key));
    value = childAt(value, keys.at(-1) as string | number);
    counted = counted.filter(({ place }) => keyAt(place, keys.length - 1) === key);
  }
  return keys;
}

/** A part of a value: a tensor, or something with tensors. */
interface Part {
  readonly key: PickleValue;
  readonly place: Place | undefined;
  readonly isTensor: boolean;
  count: number;
}

/** The parts of the value at a depth, by their keys. */
function partsAt(tensors: readonly PlacedTensor[], depth: number): Part[] {
  const parts = new Map<PickleValue, Part>();
  for (const { place } of tensors) {
    const at = placeAtDepth(place, depth + 1);
    const key = at?.key ?? null;
    const part = parts.get(key) ?? { key, place: at, isTensor: at === place, count: 0 };
    part.count++;
    parts.set(key, part);
  }
  return [...parts.values()];
}

function placeAtDepth(place: Place | undefined, depth: number): Place | undefined {
  let at = place;
  while (at !== undefined && at.depth > depth) at = at.parent;
  return at;
}

function keyAt(place: Place | undefined, depth: number): PickleValue | undefined {
  return placeAtDepth(place, depth + 1)?.key;
}

function isOf(pattern: RegExp, key: PickleValue): boolean {
  return typeof key === 'string' && pattern.test(key);
}

/** Whether keys lead into a value; a module, and an object that is not built, are taken as a whole. */
function isTransparent(value: PickleValue): boolean {
  return (
    !isTensor(value) && (!(value instanceof Placeholder) || (value.isFilled && !isModule(value)))
  );
}

/** The choice among several state dicts. */
const CHOOSE_ROOT: Advice = { option: 'root', text: 'pass the keys of one as root, or [] for all' };

function ambiguous(found: string, parts: readonly Part[], context: PickleContext): FormatError {
  return new FormatError(
    'SAFETENSORS_AMBIGUOUS_ROOT',
    `expected one state dict, found ${found}: ${listCandidates(parts)}; ${CHOOSE_ROOT.text}`,
    { ...context, advice: [CHOOSE_ROOT] },
  );
}

function listCandidates(candidates: readonly Part[]): string {
  const shown = candidates.slice(0, SHOWN_CANDIDATES).map(({ place, count }) => {
    return `${showKeys(place)} (${count} tensor${count === 1 ? '' : 's'})`;
  });
  const more = candidates.length - shown.length;
  return shown.join(', ') + (more > 0 ? ` and ${more} more` : '');
}

/**
 * The tensors of the state dict at the keys. An empty dict counts as a state dict.
 *
 * @throws FormatError `SAFETENSORS_AMBIGUOUS_ROOT` if the keys lead nowhere, or to a value without tensors
 */
export function stateDictAt(
  root: PickleValue,
  keys: RootKeys,
  maxDepth: number,
  memory: MemoryBudget,
  context: PickleContext,
): PlacedTensor[] {
  const value = valueAt(root, keys, context);
  const tensors = tensorsIn(value, maxDepth, memory, context);
  if (tensors.length > 0 || (value instanceof PickleMap && value.size === 0)) return tensors;
  const message = `expected tensors at the root ${JSON.stringify(keys)}, found none`;
  throw new FormatError('SAFETENSORS_AMBIGUOUS_ROOT', message, context);
}

function valueAt(root: PickleValue, keys: RootKeys, context: PickleContext): PickleValue {
  let value: PickleValue | undefined = root;
  for (const [i, key] of keys.entries()) {
    const parent: PickleValue = value;
    value = childAt(parent, key);
    if (value !== undefined) continue;
    const path = JSON.stringify(keys.slice(0, i + 1));
    throw new FormatError(
      'SAFETENSORS_AMBIGUOUS_ROOT',
      `expected something at the root ${path}, found nothing; ${listKeys(parent)}`,
      context,
    );
  }
  return value;
}

/** The possible next keys. */
function listKeys(value: PickleValue): string {
  const items = value instanceof PickleList ? value.items : value;
  if (Array.isArray(items)) return `it has the items 0 to ${items.length - 1}`;
  const map = value instanceof Placeholder && value.isFilled ? value.entries : value;
  const keys = map instanceof PickleMap ? Array.from(map, ([key]) => showKey(key)) : [];
  if (keys.length === 0) return 'it has no keys';
  const more = keys.length > SHOWN_CANDIDATES ? ` and ${keys.length - SHOWN_CANDIDATES} more` : '';
  return `it has the keys ${keys.slice(0, SHOWN_CANDIDATES).join(', ')}${more}`;
}

function childAt(value: PickleValue, key: string | number): PickleValue | undefined {
  if (isModule(value)) {
    for (const [name, part] of registeredIn(value)) if (name === `${key}`) return part;
    return undefined;
  }
  // An unknown object offers its entries and items.
  if (value instanceof Placeholder) {
    if (!value.isFilled) return undefined;
    const entry = childAt(value.entries, key);
    return entry === undefined ? childAt(value.items, key) : entry;
  }
  if (value instanceof PickleMap) {
    if (typeof key === 'number') return value.get(key);
    // Other keys than strings may be given as their text.
    return value.get(key) ?? [...value].find(([other]) => formatKey(other) === key)?.[1];
  }
  const items = value instanceof PickleList ? value.items : value;
  // Items, too: the command line only has texts.
  const index = Number(key);
  return Array.isArray(items) && `${index}` === `${key}` ? items[index] : undefined;
}

function tooDeep(maxDepth: number, context: PickleContext): FormatError {
  const message = `values nest deeper than limits.maxDepth allows, ${maxDepth}`;
  return new FormatError('SAFETENSORS_FOREIGN_LIMIT', message, context);
}

/**
 * Names the tensors.
 *
 * @throws FormatError `SAFETENSORS_DUPLICATE_NAME` if two tensors get the same name
 */
export function named(
  tensors: readonly PlacedTensor[],
  context: PickleContext,
): Map<string, AnyTensor> {
  const byName = new Map<string, AnyTensor>();
  readEach(tensors, tensors.length, ({ place, tensor }) => {
    const { name } = place ?? { name: '' };
    if (byName.has(name)) throw nameTwice(name, place, context);
    byName.set(name, tensor);
    return undefined;
  });
  return byName;
}

function nameTwice(name: string, place: Place | undefined, context: PickleContext): FormatError {
  return new FormatError(
    'SAFETENSORS_DUPLICATE_NAME',
    `two paths of keys give this name: ${showKeys(place)} is the second; pass a root that contains only one of them`,
    { ...context, tensor: name },
  );
}
