/** A target makes inputs and checks each; the fuzzer runs targets. */
import { SafetensorsError } from 'safetensors-mmap';
import type { Random } from '../support/random.js';
import type { PythonAnswer } from './oracle.js';

/** The budget of one input. */
export interface Budget {
  /** Time of the processor, of all threads of the process. */
  readonly milliseconds: number;
  /** Growth of the heap with all ArrayBuffers, and of the largest resident memory. */
  readonly byteLength: number;
}

/** How inputs are changed and made smaller: as bytes, or as a tree of JSON. */
export interface Form {
  /** Changes an input; `other` lends parts. */
  mutate(input: Buffer, other: Buffer, random: Random, words: readonly string[]): Buffer;
  /** Smaller inputs, the smallest first. */
  reductions(input: Buffer): Iterable<Buffer>;
}

/** Inputs that are worth changing: the seeds, and each that reached code that none before it did. */
export interface Corpus {
  readonly length: number;
  pick(random: Random): Buffer;
}

/** The tools of a check. */
export interface Place {
  /** A folder that lasts as long as the run. */
  readonly folder: string;
  /** Writes the input into a file, and gives its path; the next call overwrites it. */
  file(input: Buffer): string;
  /**
   * Asks Python about the input, with others; the judge throws when the answer is wrong. No Python: never asked.
   * Python gets one in `asksPythonOf` inputs, and the telling ones.
   */
  ask<Found>(
    reader: string,
    judge: (answer: PythonAnswer<Found>) => void,
    isTelling?: boolean,
  ): void;
}

/** One kind of input, and its check. */
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
  /**
   * Results that must occur in every run of a thousand inputs: a fuzzer whose inputs are all refused proves nothing.
   */
  readonly outcomes: readonly string[];
  /** One input of so many is put to Python; 0 for none. */
  readonly asksPythonOf: number;
  /** Before the first input, and after the last. */
  begin?(place: Place): Promise<void> | void;
  end?(): Promise<void> | void;
  seeds(): readonly Buffer[];
  make(random: Random, corpus: Corpus): Buffer;
  /** Returns the result of the input, one of a few words. Throws when a rule is broken. */
  check(input: Buffer, place: Place): string | Promise<string>;
}

/** An input broke a rule. */
export class Problem extends Error {
  override readonly name = 'Problem';
}

/** The code of an error of this package; any other error is thrown again. */
export function codeOf(error: unknown): string {
  if (error instanceof SafetensorsError) return error.code;
  throw error;
}
