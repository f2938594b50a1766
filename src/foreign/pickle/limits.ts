/** Limits on the cost of a pickle. Every default is far above the needs of checkpoints. */

import type { OptionNames } from '../../errors/arguments.js';
import { type ErrorContext, FormatError } from '../../errors/errors.js';

/** Most values on the stack: Python's pickles hand over a thousand at a time, but tuples are whole. */
export const MAX_STACK_LENGTH: number = 2 ** 20;

/** Limits on the cost of a pickle. */
export interface PickleLimits {
  /** Longest pickle, in bytes; 24 MiB by default: 100 000 tensors take about 21. */
  readonly maxPickleByteLength?: number | undefined;
  /** Most opcodes; 6 million by default: a tensor takes 35 to 40, and a million 0.15 seconds at most. */
  readonly maxOpcodes?: number | undefined;
  /** How deep lists, tuples and dicts may nest; 500 by default: real checkpoints stay below 20. */
  readonly maxDepth?: number | undefined;
  /**
   * Most memory for the pickle's values, and the same again for the names, tensors and values made from them, in
   * bytes, by estimate; 64 MiB by default, enough for 60 000 tensors.
   */
  readonly maxPickleMemoryByteLength?: number | undefined;
}

/** All limits. */
export type AllPickleLimits = Readonly<Record<keyof PickleLimits, number>>;

/** The defaults. */
export const DEFAULT_PICKLE_LIMITS: AllPickleLimits = {
  maxPickleByteLength: 24 * 2 ** 20,
  maxOpcodes: 6_000_000,
  maxDepth: 500,
  maxPickleMemoryByteLength: 64 * 2 ** 20,
};

/** Names of the limits. */
export const PICKLE_LIMITS: OptionNames<PickleLimits> = {
  maxPickleByteLength: true,
  maxOpcodes: true,
  maxDepth: true,
  maxPickleMemoryByteLength: true,
};

/** Picks the limits of pickles out of `limits`, with defaults for missing ones. */
export function allPickleLimits(limits: PickleLimits): AllPickleLimits {
  const all: Record<keyof PickleLimits, number> = { ...DEFAULT_PICKLE_LIMITS };
  for (const name of Object.keys(PICKLE_LIMITS) as (keyof PickleLimits)[]) {
    all[name] = limits[name] ?? all[name];
  }
  return all;
}

/** The place of a pickle, for messages. */
export interface PickleContext extends ErrorContext {
  /** Name of the archive's record that is the pickle; left out if positions count from the start of the file. */
  readonly part?: string | undefined;
  /** Whether the file ends with these bytes: a cut pickle then means a cut file. */
  readonly isUpToEnd?: boolean | undefined;
  /** The end of the file, if the bytes were cut at a limit: a pickle that continues there is too long. */
  readonly fileEnd?: number | undefined;
}

/** The error for a bad byte. */
export function pickleError(message: string, at: number, context: PickleContext): FormatError {
  return new FormatError(
    'SAFETENSORS_INVALID_PICKLE',
    `${formatPlace(at, context)}: ${message}`,
    context,
  );
}

/** The error for a pickle that continues beyond its bytes. */
export function pickleEndError(message: string, at: number, context: PickleContext): FormatError {
  if (context.isUpToEnd !== true) return pickleError(message, at, context);
  const whole = `the file is incomplete: ${formatPlace(at, context)}: ${message}; fetch it again`;
  return new FormatError('SAFETENSORS_INCOMPLETE_FILE', whole, context);
}

/** The error for a pickle that exceeds a limit. */
export function pickleLimitError(
  name: keyof PickleLimits,
  limits: AllPickleLimits,
  at: number,
  context: PickleContext,
): FormatError {
  return new FormatError(
    'SAFETENSORS_FOREIGN_LIMIT',
    `${formatPlace(at, context)}: the pickle exceeds limits.${name}, ${limits[name]}`,
    context,
  );
}

/** The error for a pickle with too many items for a walk. */
export function pickleWalkError(what: string, at: number, context: PickleContext): FormatError {
  return new FormatError(
    'SAFETENSORS_FOREIGN_LIMIT',
    `${formatPlace(at, context)}: found too many ${what}`,
    context,
  );
}

/** A place in a pickle, for messages. */
export function formatPlace(at: number, { part }: PickleContext): string {
  return part === undefined ? `byte ${at}` : `byte ${at} of ${part}`;
}
