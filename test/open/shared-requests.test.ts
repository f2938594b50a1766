/** Calls that need the same bytes at the same time share their requests, and are aborted one by one. */
import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { type Handle, NAMED_KINDS, openUntilEnd } from './kinds/kinds.js';
import { outcomeOf } from './kinds/outcome.js';
import type { Traffic } from './kinds/traffic.js';

const NAME = 'embed.weight';
const REASON = { why: 'the user has left' };
const CLOSED = { error: { type: 'FileClosedError', code: 'SAFETENSORS_FILE_CLOSED' } };

type Call = (handle: Handle, options?: { readonly signal: AbortSignal }) => unknown;

/** Calls that need a header, or a header and bytes. */
const CALLS: Readonly<Record<string, Call>> = {
  info: (handle, options) => (handle.info as (...args: unknown[]) => unknown)(NAME, options),
  getTensor: (handle, options) =>
    (handle.getTensor as (...args: unknown[]) => unknown)(NAME, options),
  tensors: (handle, options) => handle.tensors(options),
  readTensors: (handle, options) => handle.readTensors([NAME], options),
  sibling: (handle, options) => handle.sibling('config.json', options),
};

const remoteKinds = NAMED_KINDS.filter(([, { place }]) => place.isRemote);

describe.each(remoteKinds)('%s', (_, kind) => {
  async function open(): Promise<readonly [handle: Handle, traffic: Traffic]> {
    const placed = await kind.place(kind.files());
    return [await openUntilEnd(placed), placed.traffic as Traffic];
  }

  describe.each(Object.entries(CALLS))('%s', (_, call) => {
    /** The requests of a single call. */
    async function requestsOfOne(): Promise<readonly string[]> {
      const [handle, traffic] = await open();
      const { length } = traffic.requests;
      await call(handle);
      return traffic.requests.slice(length);
    }

    test('sends the requests of one call for two at the same time', async () => {
      const expected = await requestsOfOne();
      const [handle, traffic] = await open();
      const { length } = traffic.requests;
      const outcomes = await Promise.all([outcomeOf(handle, call), outcomeOf(handle, call)]);
      expect(outcomes[0]).toHaveProperty('value');
      expect(outcomes[1]).toEqual(outcomes[0]);
      expect(traffic.requests.slice(length)).toEqual(expected);
    });

    test('goes on for the second caller when the first aborts', async () => {
      const expected = await requestsOfOne();
      const [handle, traffic] = await open();
      const { length } = traffic.requests;
      const release = traffic.hold();
      const scope = new AbortController();
      const first = outcomeOf(handle, (one) => call(one, { signal: scope.signal }));
      const second = outcomeOf(handle, call);
      if (expected.length > 0) {
        await traffic.next(length);
        // On a busy machine the second call may have yielded to the event loop before it waits for the header.
        for (let turn = 0; turn < 3; turn++) await setImmediate();
      }
      scope.abort(REASON);
      expect(await first).toEqual({ error: REASON });
      release();
      expect(await second).toHaveProperty('value');
      expect(traffic.requests.slice(length)).toEqual(expected);
    });

    test('asks again after all callers have aborted', async () => {
      const [handle, traffic] = await open();
      const release = traffic.hold();
      const scope = new AbortController();
      const options = { signal: scope.signal };
      const both = [1, 2].map(() => outcomeOf(handle, (one) => call(one, options)));
      scope.abort(REASON);
      expect(await Promise.all(both)).toEqual([{ error: REASON }, { error: REASON }]);
      release();
      expect(await outcomeOf(handle, call)).toHaveProperty('value');
    });

    test('ends for all callers when the handle is closed', async () => {
      const [handle, traffic] = await open();
      const release = traffic.hold();
      const both = [1, 2].map(() => outcomeOf(handle, call));
      handle.close();
      expect(await Promise.all(both)).toMatchObject([CLOSED, CLOSED]);
      release();
    });
  });
});
