import { getEventListeners } from 'node:events';
import { describe, expect, it } from 'vitest';
import { ofEach, SharedCall, withScope } from '../../src/work/scope.js';

const never = new Promise<never>(() => {});

/** Settles when the signal is aborted. */
function untilEnd(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
}

describe('withScope', () => {
  it('gives what the work gives, ends what it began, and leaves no listeners', async () => {
    const outer = new AbortController();
    let inner: AbortSignal | undefined;
    const result = await withScope([outer.signal, undefined], async ({ signal }) => {
      inner = signal;
      expect(signal.aborted).toBe(false);
      return 5;
    });
    expect(result).toBe(5);
    expect(inner?.aborted).toBe(true);
    expect(getEventListeners(outer.signal, 'abort')).toEqual([]);
  });

  it('rejects with the reason of the signal, whatever the work makes of it', async () => {
    const outer = new AbortController();
    const reason = new Error('enough');
    const work = withScope([outer.signal], async ({ signal }) => {
      await untilEnd(signal).catch(() => {
        throw new Error('broken connection');
      });
    });
    outer.abort(reason);
    await expect(work).rejects.toBe(reason);
    expect(getEventListeners(outer.signal, 'abort')).toEqual([]);
  });

  it('does not begin when a signal is aborted already', async () => {
    let begun = false;
    const work = withScope([AbortSignal.abort('before')], async () => {
      begun = true;
    });
    await expect(work).rejects.toBe('before');
    expect(begun).toBe(false);
  });

  it('rejects with the reason by which the work ended itself', async () => {
    const work = withScope([], async (scope) => {
      scope.abort('first');
      throw new Error('second');
    });
    await expect(work).rejects.toBe('first');
  });
});

describe('ofEach', () => {
  const { signal } = new AbortController();
  const wait = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

  it('gives all results in the order of the items, whichever comes first', async () => {
    let [running, most] = [0, 0];
    const work = async (ms: number): Promise<number> => {
      most = Math.max(most, ++running);
      await wait(ms);
      running--;
      return 2 * ms;
    };
    expect(await ofEach(new Set([9, 1, 5, 3]), 3, work, signal)).toEqual([18, 2, 10, 6]);
    expect(most).toBe(3);
    expect(await ofEach([], 3, work, signal)).toEqual([]);
  });

  it('rejects with the first failure in time, once the others have ended', async () => {
    const begun: number[] = [];
    let ended = 0;
    const work = async (item: number, ends: AbortSignal): Promise<void> => {
      begun.push(item);
      if (item === 2) throw new Error('two');
      await untilEnd(ends).catch(() => wait(5));
      ended++;
      throw new Error('later');
    };
    await expect(ofEach([1, 2, 3, 4, 5], 3, work, signal)).rejects.toThrow('two');
    expect([begun, ended]).toEqual([[1, 2, 3], 2]);
  });

  it('ends with the signal of the caller', async () => {
    const outer = new AbortController();
    const work = ofEach([1, 2], 2, (_, ends) => untilEnd(ends), outer.signal);
    outer.abort('enough');
    await expect(work).rejects.toBe('enough');
  });
});

describe('SharedCall', () => {
  it('goes on while somebody waits', async () => {
    const [one, other] = [new AbortController(), new AbortController()];
    let signal: AbortSignal | undefined;
    const call = new SharedCall((shared) => {
      signal = shared;
      return never;
    });
    const waits = [call.wait(one.signal), call.wait(other.signal)];
    one.abort('one');
    await expect(waits[0]).rejects.toBe('one');
    expect(signal?.aborted).toBe(false);
    expect(call.isAbandoned).toBe(false);
    other.abort('other');
    await expect(waits[1]).rejects.toBe('other');
    expect(signal?.aborted).toBe(true);
    expect(call.isAbandoned).toBe(true);
  });

  it('gives everybody the same', async () => {
    const call = new SharedCall(async () => ({}));
    const [one, other] = await Promise.all([
      call.wait(new AbortController().signal),
      call.wait(new AbortController().signal),
    ]);
    expect(one).toBe(other);
  });
});
