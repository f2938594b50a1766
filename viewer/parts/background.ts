/**
 * Work on a whole model in the background: done once, whichever views show it, and going on while people look
 * elsewhere.
 */

import { type CallError, call } from '../client.js';
import type { ArgsOf, ProgressOf, ResultOf } from '../protocol.js';
import { type Signal, signal } from './signal.js';

/** Calls whose progress has what is known so far. */
type LongCall = 'layers' | 'differ';

/** How far work is. */
export interface Work<Name extends LongCall> {
  /** What is known so far, or all. */
  readonly result: ResultOf<Name> | null;
  readonly isWhole: boolean;
  readonly isRunning: boolean;
  /** Whether the result is of all tensors: not before the end, nor after a stop or a failure. */
  readonly isComplete: boolean;
  readonly progress: ProgressOf<Name> | null;
  readonly failure: CallError | null;
}

interface Known {
  readonly state: Signal<Work<LongCall>>;
  controller: AbortController | null;
}

const works = new WeakMap<object, Map<LongCall, Known>>();

/** Before work begins. */
const NOTHING = {
  result: null,
  isWhole: false,
  isRunning: false,
  isComplete: false,
  progress: null,
  failure: null,
};

function known(name: LongCall, owner: object): Known {
  const ofOwner = works.get(owner) ?? new Map<LongCall, Known>();
  works.set(owner, ofOwner);
  const found = ofOwner.get(name);
  if (found !== undefined) return found;
  const made: Known = { state: signal<Work<LongCall>>(NOTHING), controller: null };
  ofOwner.set(name, made);
  return made;
}

/** The work on a source, which has perhaps not begun. */
export function workOf<Name extends LongCall>(name: Name, owner: object): Signal<Work<Name>> {
  return known(name, owner).state as unknown as Signal<Work<Name>>;
}

/** Begins work again. */
export async function start<Name extends LongCall>(
  name: Name,
  owner: object,
  args: ArgsOf<Name> & { readonly whole: boolean },
): Promise<void> {
  const work = known(name, owner);
  work.controller?.abort();
  work.controller = new AbortController();
  const { signal: own } = work.controller;
  const state = workOf(name, owner);
  state.value = { ...NOTHING, isWhole: args.whole, isRunning: true };
  try {
    const onProgress = (progress: ProgressOf<Name>) => {
      state.value = {
        ...state.value,
        progress,
        result: (progress as { partial: ResultOf<Name> }).partial,
      };
    };
    const result = await call(name, args, { signal: own, onProgress });
    state.value = { ...state.value, result, isRunning: false, isComplete: true };
  } catch (error) {
    if (!own.aborted)
      state.value = { ...state.value, isRunning: false, failure: error as CallError };
  }
}

/** Ends work; what is known stays. */
export function stop(name: LongCall, owner: object): void {
  const work = known(name, owner);
  work.controller?.abort();
  work.state.value = { ...work.state.value, isRunning: false };
}

const pairs = new WeakMap<object, WeakMap<object, object>>();

/** An owner for work on two sources together. */
export function pairOf(first: object, second: object): object {
  const ofFirst = pairs.get(first) ?? new WeakMap<object, object>();
  pairs.set(first, ofFirst);
  const pair = ofFirst.get(second) ?? {};
  ofFirst.set(second, pair);
  return pair;
}
