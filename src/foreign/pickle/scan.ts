/**
 * Walks over a pickle without building anything of it: which globals it names, which persistent ids, and which
 * opcodes no pickler writes. Knows the opcodes of all protocols, also those that the machine refuses. What Python
 * goes on with, the walk goes on with.
 */

import type { SafetensorsError } from '../../errors/errors.js';
import type { KnownValue, NamedGlobal } from './known-values.js';
import { type AllPickleLimits, DEFAULT_PICKLE_LIMITS } from './limits.js';
import { PickleReader } from './reader.js';
import { type OddOpcode, type ScanContext, Walk } from './walk.js';

/** What a walk over a pickle found. */
export interface ScannedPickle {
  readonly globals: readonly NamedGlobal[];
  readonly oddOpcodes: readonly OddOpcode[];
  /** Opcodes that were walked over. */
  readonly opcodeCount: number;
  /** The byte after the pickle, or that at which the walk had to end. */
  readonly end: number;
  /** The value of the pickle. */
  readonly result: KnownValue;
  /** Whether something is called, whatever that is. */
  readonly hasCalls: boolean;
  /** Whether the bytes end within the names of a global: Python's own reader asks for what there is of them. */
  readonly isCutInGlobal: boolean;
  /** Why the pickle is not well formed, or was not walked over to its end. */
  readonly problem?: string;
  /** Whether the problem is a limit: Python may go on. */
  readonly isLimit?: boolean;
}

/** Walks over the pickle that begins at `begin`. Never throws: what is wrong becomes the problem. */
export function scanOpcodes(
  bytes: Uint8Array,
  begin = 0,
  limits: AllPickleLimits = DEFAULT_PICKLE_LIMITS,
  context: ScanContext = {},
): ScannedPickle {
  const reader = new PickleReader(bytes, begin, limits, context, context.fileEnd);
  const walk = new Walk(reader, context);
  let failure: SafetensorsError | undefined;
  try {
    walk.run(limits.maxOpcodes);
  } catch (error) {
    failure = error as SafetensorsError;
  }
  const found = {
    globals: [...walk.globals.values()],
    oddOpcodes: walk.oddOpcodes,
    opcodeCount: walk.opcodeCount,
    end: walk.reader.at,
    result: walk.result,
    hasCalls: walk.hasCalls,
    isCutInGlobal: walk.isCutInGlobal,
  };
  if (failure === undefined) return found;
  const isLimit = failure.code !== 'SAFETENSORS_INVALID_PICKLE';
  return { ...found, problem: failure.message, isLimit };
}

/**
 * Whether loading the pickle could have called or imported something: it names a global, calls what the walk cannot
 * name, or goes on where the walk ended. Names are words, unless the pickle is whole: a text that begins with the
 * letter of an opcode, such as `import os`, names nothing.
 */
export function mayRun(scanned: ScannedPickle): boolean {
  const { problem, isLimit, globals, oddOpcodes, hasCalls, isCutInGlobal } = scanned;
  return (
    isLimit === true ||
    (hasCalls && oddOpcodes.some(({ isHidden }) => isHidden)) ||
    globals.some((global) => problem === undefined || areWords(global, isCutInGlobal))
  );
}

/**
 * Whether these may be the names of something. Python imports no module without a name; but where the file ends within
 * the names, its own reader asks for what there is of them, even for nothing.
 */
function areWords({ module, name }: NamedGlobal, isCut: boolean): boolean {
  return (module !== '' || isCut) && WORDS.test(module) && WORDS.test(name);
}

const WORDS = /^[\p{L}\p{N}_.<>-]*$/u;
