/** The questions that the pickle machine asks its format. */

import type { Advice } from '../../errors/advice.js';
import type { NamedGlobal } from './known-values.js';
import type { PickleGlobal, PickleTuple, PickleValue } from './values.js';

/** Answers the machine's questions for one format. `at` is the byte of the opcode. */
export interface PickleHost {
  /** Returns the class or function with exactly these names; undefined if it is forbidden. */
  global(module: string, name: string): PickleGlobal | undefined;
  /** Returns the result of calling a function or class; with `isNew`, that of the class's `__new__` alone. */
  call(callee: PickleGlobal, args: PickleTuple, at: number, isNew: boolean): PickleValue;
  /** Returns the object with the given state applied. */
  build(target: PickleValue, state: PickleValue, at: number): PickleValue;
  /** Returns the value of a persistent id. */
  persistent(id: PickleValue, at: number): PickleValue;
  /** Advice about forbidden globals, for the message. */
  advice?(
    globals: readonly NamedGlobal[],
  ): { readonly text: string; readonly advice: readonly Advice[] } | undefined;
}
