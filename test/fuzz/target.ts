/** What the fuzzer runs: a target makes inputs and says what must hold of each. */
import { SafetensorsError } from 'safetensors-mmap';
import type { Random } from '../support/random.js';
import type { PythonAnswer } from './oracle.js';

/** What one input may cost. */
export interface Budget {
  /** Time of the processor, of all threads of the process. */
  readonly milliseconds: number;
  /** Growth of the heap with all ArrayBuffers, and of the largest resident memory. */
  readonly byteLength: number;
}

/** How inputs are changed and made smaller: as bytes, or as a tree of JSON. */
export interface Form {
  /** One input of another; `other` is one to take parts from. */
  mutate(input: Buffer, other: Buffer, random: Random, words: readonly string[]): Buffer;
  /** Smaller inputs, those that lack most first. */
  reductions(input: Buffer): Iterable<Buffer>;
}

/** Inputs that are worth changing: the seeds, and each that reached code that none before it did. */
export interface Corpus {
  readonly length: number;
  pick(random: Random): Buffer;
}

/** What a check has at hand. */
export interface Place {
  /** A folder that lasts as long as the run. */
  readonly folder: string;
  /** Writes the input into a file, and gives its path; the next call overwrites it. */
  file(input: Buffer): string;
  /**
   * Asks Python about the input, with others; the judge throws when the answer is wrong. No Python: never asked. One of
   * `asksPythonOf` inputs is, and those that are telling.
   */
  ask<Found>(
    reader: string,
    judge: (answer: PythonAnswer<Found>) => void,
    isTelling?: boolean,
  ): void;
}

/** One kind of input, and what must come of it. */
export interface Target {
  readonly name: string;
  /** One line for `--list`. */
  readonly about: string;
  /** Modules of the library, such as `header/header`, whose coverage is reported. */
  readonly sources: RegExp;
  readonly form: Form;
  readonly budget: Budget;
  /** Inputs between two looks at the coverage. */
  readonly batchLength: number;
  /** What must have come of some input of every run of a thousand: a fuzzer whose inputs are all refused shows nothing. */
  readonly outcomes: readonly string[];
  /** One input of so many is put to Python; 0 for none. */
  readonly asksPythonOf: number;
  /** Before the first input, and after the last. */
  begin?(place: Place): Promise<void> | void;
  end?(): Promise<void> | void;
  seeds(): readonly Buffer[];
  make(random: Random, corpus: Corpus): Buffer;
  /** Says what came of the input, as one of a few words. Throws what must not happen. */
  check(input: Buffer, place: Place): string | Promise<string>;
}

/** Something came of an input that must not. */
export class Problem extends Error {
  override readonly name = 'Problem';
}

/** The code of an error of this package; any other error is thrown again. */
export function codeOf(error: unknown): string {
  if (error instanceof SafetensorsError) return error.code;
  throw error;
}
