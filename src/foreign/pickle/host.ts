/** What the pickle machine asks the format that it reads for. */

import type { NamedGlobal } from './known-values.js';
import type { PickleGlobal, PickleTuple, PickleValue } from './values.js';

/** What the machine asks the format that it reads for. `at` is the byte of the opcode. */
export interface PickleHost {
  /** A class or function by its exact names; undefined when it is forbidden. */
  global(module: string, name: string): PickleGlobal | undefined;
  /** What a call of a function or class gives; with `isNew`, what the class's `__new__` alone gives. */
  call(callee: PickleGlobal, args: PickleTuple, at: number, isNew: boolean): PickleValue;
  /** What an object becomes that is given a state. */
  build(target: PickleValue, state: PickleValue, at: number): PickleValue;
  /** What a persistent id stands for. */
  persistent(id: PickleValue, at: number): PickleValue;
  /** What to do about forbidden globals, for the message. */
  advice?(globals: readonly NamedGlobal[]): string | undefined;
}
