/** A call to the worker as state: made when its arguments change, ended when nobody wants it any more. */

import { useLayoutEffect, useState } from 'preact/hooks';
import { type CallError, call } from '../client.js';
import type { ArgsOf, CallName, ProgressOf, ResultOf } from '../protocol.js';

/** How far a call is. */
interface CallState<Name extends CallName> {
  /** The latest result; while the next one comes, that of the arguments before. */
  readonly result: ResultOf<Name> | null;
  readonly progress: ProgressOf<Name> | null;
  readonly failure: CallError | null;
  readonly isRunning: boolean;
  readonly stop: () => void;
}

type Known<Name extends CallName> = Omit<CallState<Name>, 'stop'> & { readonly key: string };

/**
 * Makes a call for arguments that can be told apart by their JSON; none for null.
 *
 * @param delay milliseconds to wait before: arguments that change while people drag or type need no call each
 */
export function useCall<Name extends CallName>(
  name: Name,
  args: ArgsOf<Name> | null,
  { delay = 0, keep = false } = {},
): CallState<Name> {
  const key = JSON.stringify(args);
  const none = { result: null, progress: null, failure: null, isRunning: args !== null, key };
  const [known, setKnown] = useState<Known<Name>>(none);
  const [controller, setController] = useState<AbortController | null>(null);
  const change = (changes: Partial<Known<Name>>) =>
    setKnown((before) => ({ ...(before.key === key || keep ? before : none), key, ...changes }));
  // Before the page is painted: the worker computes meanwhile.
  useLayoutEffect(() => {
    if (args === null) return;
    const own = new AbortController();
    setController(own);
    const update = (changes: Partial<Known<Name>>) => {
      if (!own.signal.aborted) change(changes);
    };
    const ask = async () => {
      if (own.signal.aborted) return;
      update({ isRunning: true, failure: null });
      const options = {
        signal: own.signal,
        onProgress: (progress: ProgressOf<Name>) => update({ progress }),
      };
      try {
        const result = await call(name, args, options);
        update({ result, isRunning: false });
      } catch (error) {
        update({ failure: error as CallError, isRunning: false });
      }
    };
    if (delay === 0) {
      void ask();
      return () => own.abort();
    }
    const timer = setTimeout(ask, delay);
    return () => {
      clearTimeout(timer);
      own.abort();
    };
  }, [key]);
  const stop = () => {
    controller?.abort();
    change({ isRunning: false });
  };
  const isLatest = known.key === key;
  const state = isLatest || keep ? known : none;
  // During the delay `known` is that of the arguments before, whose call may have ended.
  return { ...state, isRunning: isLatest ? known.isRunning : none.isRunning, stop };
}
