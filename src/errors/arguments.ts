/**
 * Checks of arguments. A programmer's mistake is a TypeError or a RangeError with one of Node's
 * codes; the message has the argument's name, the expected value and the value found.
 */

import { isAbortSignal, isIterable, isUint8Array, isUrl } from './brand-checks.js';
import { quoteName } from './errors.js';
import { nearNames } from './near-names.js';

/** Describes a value for a message: its kind, or the value itself if short. */
export function describeValue(value: unknown): string {
  if (typeof value === 'string') return quoteName(value);
  if (typeof value === 'bigint') return `${value}n`;
  if (Array.isArray(value)) return `an array of ${value.length} items`;
  if (typeof value === 'object' && value !== null) {
    const name: unknown = value.constructor?.name;
    return `an instance of ${typeof name === 'string' && name !== '' ? name : 'Object'}`;
  }
  return typeof value === 'function' ? 'a function' : String(value);
}

/** Returns a TypeError for an argument of the wrong type. The advice says what to write instead. */
export function argumentTypeError(
  name: string,
  expected: string,
  actual: unknown,
  advice = '',
): TypeError {
  const message = `${name} must be ${expected}, but is ${describeValue(actual)}${advice}`;
  return Object.assign(new TypeError(message), { code: 'ERR_INVALID_ARG_TYPE', argument: name });
}

/** Returns a RangeError for an argument of the right type with a wrong value. */
export function argumentRangeError(name: string, expected: string, actual: unknown): RangeError {
  // The value does not matter then.
  const found = expected.startsWith('left out') ? '' : `, but is ${describeValue(actual)}`;
  const message = `${name} must be ${expected}${found}`;
  return Object.assign(new RangeError(message), { code: 'ERR_OUT_OF_RANGE', argument: name });
}

/** Names of options; of one that is an object, such as `limits`, those of its members. */
export interface NamesOfOptions {
  readonly [name: string]: true | NamesOfOptions;
}

/** The options of a function by name. The compiler says when one is missing here. */
export type OptionNames<Options> = {
  readonly [Name in keyof Required<Options>]: true | NamesOfOptions;
};

/**
 * Throws a TypeError unless `options` is an object with these options only: a misspelt option would be ignored.
 * Undefined options count as absent. `label` is the name of an option that is such an object itself.
 */
export function requireOptions(options: unknown, names: NamesOfOptions, label?: string): void {
  const subject = label ?? 'options';
  if (typeof options !== 'object' || options === null) {
    const isPythons = typeof options === 'string' && PYTHON_ARGUMENT.test(options);
    const advice = isPythons ? '; leave out the framework and the device of Python' : '';
    throw argumentTypeError(subject, 'an object', options, advice);
  }
  // A value meant for an option: its own keys are absent, or one per item.
  if (isIterable(options) || isAbortSignal(options)) {
    const expected = `an object with ${Object.keys(names).join(', ')}`;
    throw argumentTypeError(subject, expected, options);
  }
  const prefix = label === undefined ? '' : `${label}.`;
  for (const [name, value] of Object.entries(options)) {
    if (value !== undefined && !Object.hasOwn(names, name)) {
      throw unknownOption(name, value, names, prefix);
    }
  }
}

/** Values of Python's arguments `framework` and `device`. */
const PYTHON_ARGUMENT =
  /^(?:pt|torch|np|numpy|tf|tensorflow|flax|jax|mlx|paddle|cpu|mps|cuda(?::\d+)?)$/;

/** Options of `snapshot_download`, without `_`: Python's option → the option here, and the advice. */
const PYTHON_OPTIONS: Readonly<Record<string, readonly [needed: string, advice: string]>> = {
  allowpatterns: ['files', 'it is files here'],
  ignorepatterns: ['ignore', 'it is ignore here'],
  localdir: ['files', 'pass the folder as the target'],
  cachedir: ['files', "pass 'cache' as the target; HF_HUB_CACHE says where the cache is"],
};

function unknownOption(
  name: string,
  value: unknown,
  names: NamesOfOptions,
  prefix: string,
): TypeError {
  const hint = hintOn(name, value, names, prefix);
  const message = `unknown option ${quoteName(prefix + name)}; ${hint}`;
  return Object.assign(new TypeError(message), { code: 'ERR_INVALID_ARG_VALUE' });
}

function hintOn(name: string, value: unknown, names: NamesOfOptions, prefix: string): string {
  if (name === 'framework' || name === 'device') {
    return `leave it out: tensors have typed arrays in the memory of this process`;
  }
  for (const [option, members] of Object.entries(names)) {
    if (members !== true && Object.hasOwn(members, name)) return `it is ${option}.${name}`;
  }
  for (const [pythons, [needed, advice]] of Object.entries(PYTHON_OPTIONS)) {
    const isMeant = name.toLowerCase().replaceAll('_', '') === pythons;
    if (isMeant && Object.hasOwn(names, needed)) return advice;
  }
  const known = Object.keys(names);
  // Python writes max_shard_size.
  const [near] = nearNames(name.replaceAll('_', ''), known);
  if (near !== undefined) return `did you mean ${prefix}${near}?`;
  // Python takes metadata as an argument of its own.
  const isMetadata = Object.hasOwn(names, 'metadata') && typeof value === 'string';
  // Without the value, which may be a secret.
  const advice = isMetadata
    ? `; if it is metadata, write { metadata: { ${quoteName(name)}: … } }`
    : '';
  return `the options are ${known.map((one) => prefix + one).join(', ')}${advice}`;
}

/** Throws a TypeError unless `names` is iterable. A string is one name, not a list of names. */
export function requireNames(names: unknown): void {
  if (isIterable(names)) return;
  const hint = typeof names === 'string' ? `, such as [${quoteName(names)}]` : '';
  throw argumentTypeError('names', `an iterable of strings${hint}`, names);
}

/**
 * Throws a TypeError when the path and what is written there have changed places, as in Python's `save_file`. Says
 * nothing about other values.
 *
 * @param call the call as it is meant: `saveFile(path, tensors)`
 */
export function requirePathFirst(path: unknown, content: unknown, call: string): void {
  const isPath = (value: unknown): boolean => typeof value === 'string' || isUrl(value);
  if (isPath(path) || isUint8Array(path) || !isPath(content)) return;
  throw argumentTypeError('path', 'a path', path, `; the path comes first: ${call}`);
}

/** Throws a TypeError unless the value is a string. */
export function requireString(name: string, value: unknown): void {
  if (typeof value !== 'string') throw argumentTypeError(name, 'a string', value);
}

/** Throws a TypeError unless the value is a boolean. */
export function requireBoolean(name: string, value: unknown): void {
  if (typeof value !== 'boolean') throw argumentTypeError(name, 'a boolean', value);
}

/** Throws a TypeError unless the value is a function. */
export function requireFunction(name: string, value: unknown): void {
  if (typeof value !== 'function') throw argumentTypeError(name, 'a function', value);
}

/** Throws a TypeError unless the option `signal` is an AbortSignal or undefined. */
export function requireSignal(signal: unknown): void {
  if (signal === undefined || isAbortSignal(signal)) return;
  throw argumentTypeError('signal', 'an AbortSignal', signal);
}

/** Throws a TypeError unless the value is a number, a RangeError unless it is such an integer. */
export function requireInteger(
  name: string,
  value: unknown,
  lowest: number,
  highest: number,
): void {
  if (typeof value !== 'number') throw argumentTypeError(name, 'a number', value);
  if (Number.isInteger(value) && value >= lowest && value <= highest) return;
  throw argumentRangeError(name, `an integer from ${lowest} to ${highest}`, value);
}
