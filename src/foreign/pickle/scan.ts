/**
 * Walks over a pickle without building its values and notes globals, persistent ids and opcodes that no pickler
 * writes. Knows the opcodes of all protocols, also those that the machine refuses. Continues wherever Python would.
 */

import type { KnownValue, NamedGlobal } from './known-values.js';
import { type AllPickleLimits, DEFAULT_PICKLE_LIMITS } from './limits.js';
import { PickleReader } from './reader.js';
import { type InnerFile, type ScanContext, type SuspiciousOpcode, Walk } from './walk.js';

/** Findings of a walk over a pickle. */
export interface ScannedPickle {
  readonly globals: readonly NamedGlobal[];
  readonly suspiciousOpcodes: readonly SuspiciousOpcode[];
  /** Files that the pickle loads from its own bytes. */
  readonly innerFiles: readonly InnerFile[];
  /** Opcodes that were walked over. */
  readonly opcodeCount: number;
  /** The byte after the pickle, or the byte at which the walk had to stop. */
  readonly end: number;
  /** The value of the pickle. */
  readonly result: KnownValue;
  /** Whether the pickle calls anything. */
  readonly hasCalls: boolean;
  /** Whether the bytes end within the names of a global: Python's own reader looks up the cut names. */
  readonly isCutInGlobal: boolean;
  /** The reason why the pickle is malformed or the walk stopped early. */
  readonly problem?: string;
  /** Whether the problem is a limit: Python may go on. */
  readonly isLimit?: boolean;
}

/** Walks over the pickle that begins at `begin`. Never throws: reports errors as `problem`. */
export function scanOpcodes(
  bytes: Uint8Array,
  begin = 0,
  limits: AllPickleLimits = DEFAULT_PICKLE_LIMITS,
  context: ScanContext = {},
): ScannedPickle {
  const reader = new PickleReader(bytes, begin, limits, context, context.fileEnd);
  const walk = new Walk(reader, context);
  let failure: Error | undefined;
  try {
    walk.run(limits.maxOpcodes);
  } catch (error) {
    failure = error as Error;
  }
  const found = {
    globals: [...walk.globals.values()],
    suspiciousOpcodes: walk.suspiciousOpcodes,
    innerFiles: walk.innerFiles,
    opcodeCount: walk.opcodeCount,
    end: walk.reader.at,
    result: walk.result,
    hasCalls: walk.hasCalls,
    isCutInGlobal: walk.isCutInGlobal,
  };
  if (failure === undefined) return found;
  return { ...found, problem: failure.message, isLimit: !reader.isMalformed };
}

/**
 * Whether loading the pickle could have called or imported something: it names a global, calls something that the
 * walk cannot name, or continues beyond the walk's end. In a broken pickle only words count as names: a text that
 * begins with the letter of an opcode, such as `import os`, names nothing.
 */
export function mayRun(scanned: ScannedPickle): boolean {
  const { problem, isLimit, globals, suspiciousOpcodes, hasCalls, isCutInGlobal } = scanned;
  return (
    isLimit === true ||
    (hasCalls && suspiciousOpcodes.some(({ isHidden }) => isHidden)) ||
    globals.some((global) => problem === undefined || areWords(global, isCutInGlobal))
  );
}

/**
 * Whether these may be the names of a global. Python imports no module with an empty name; but if the file ends
 * within the names, Python's own reader looks up the rest, even if empty.
 */
function areWords({ module, name }: NamedGlobal, isCut: boolean): boolean {
  words ??= new RegExp(WORDS, 'u');
  return (module !== '' || isCut) && words.test(module) && words.test(name);
}

const WORDS = '^[\\p{L}\\p{N}_.<>-]*$';

/** Created on first use: collecting all letters takes half a millisecond. */
let words: RegExp | undefined;
