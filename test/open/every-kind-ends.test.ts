/** Closing a handle and aborting a call have the same outcomes over every kind of source. */
import { describe, expect, test } from 'vitest';
import { type Handle, NAMED_KINDS, openKind, openUntilEnd } from './kinds/kinds.js';
import { casesOf, type EndableCall, endableCalls } from './kinds/members.js';
import { outcomeOf } from './kinds/outcome.js';
import type { Traffic } from './kinds/traffic.js';

const CLOSED = {
  error: {
    type: 'FileClosedError',
    code: 'SAFETENSORS_FILE_CLOSED',
    path: '<path>',
    message: 'the file is closed',
  },
};

const REASON = { why: 'the user has left' };
const ABORTED = { error: REASON };

/** Whether an outcome is the error of a wrong argument. */
function isOfArguments(outcome: unknown): boolean {
  const { error } = outcome as { readonly error?: { readonly code?: string } };
  return error?.code?.startsWith('ERR_') === true;
}

/** Starts a call, and waits until it has sent a request; false when it needs none. */
async function startRequest(
  traffic: Traffic,
  start: () => Promise<unknown>,
): Promise<{ readonly isSent: boolean; readonly outcome: Promise<unknown> }> {
  const count = traffic.requests.length;
  const outcome = start();
  const isSent = await Promise.race([outcome.then(() => false), traffic.next(count)]);
  return { isSent, outcome };
}

describe.each(NAMED_KINDS)('%s', (_, kind) => {
  /** Runs a check for every call that can be ended, each on a fresh handle. */
  async function forEachCall(
    check: (handle: Handle, call: EndableCall, traffic: Traffic | undefined) => Promise<void>,
  ): Promise<void> {
    const { length } = endableCalls(await openKind(kind));
    expect(length).toBeGreaterThan(4);
    for (let i = 0; i < length; i++) {
      const placed = await kind.place(kind.files());
      const handle = await openUntilEnd(placed);
      await check(handle, endableCalls(handle)[i] as EndableCall, placed.traffic);
    }
  }

  test('answers the same after close(), or throws FILE_CLOSED', async () => {
    const handle = await openKind(kind);
    const cases = casesOf(handle);
    const before = [];
    for (const { call } of cases) before.push(await outcomeOf(handle, call));
    handle.close();
    handle.close();
    for (const [i, { name, label, member, call }] of cases.entries()) {
      const after = await outcomeOf(handle, call);
      const text = `${name}: ${label}`;
      if (name === 'ok') expect(after, text).toEqual({ value: false });
      else if (name === 'toJSON') expect(after, text).not.toHaveProperty('value.size');
      else if (member.closed === 'answers') expect(after, text).toEqual(before[i]);
      else if (!isOfArguments(before[i])) expect(after, text).toMatchObject(CLOSED);
      else if (!isOfArguments(after)) expect(after, text).toMatchObject(CLOSED);
      else expect(after, text).toEqual(before[i]);
    }
  });

  test('checks arguments of closed handles in the same order', async () => {
    const [handle, reference] = [await openKind(kind), await openKind(NAMED_KINDS[0]?.[1] ?? kind)];
    handle.close();
    reference.close();
    for (const { name, label, member, call } of casesOf(handle)) {
      if (member.closed !== undefined) continue;
      const after = await outcomeOf(handle, call);
      expect(after, `${name}: ${label}`).toEqual(await outcomeOf(reference, call));
    }
  });

  test('rejects with the reason of a signal, aborted before the call or right after it', async () => {
    await forEachCall(async (handle, { name, call }) => {
      const before = outcomeOf(handle, () => call(AbortSignal.abort(REASON)));
      expect(await before, name).toEqual(ABORTED);
      const scope = new AbortController();
      const outcome = outcomeOf(handle, () => call(scope.signal));
      scope.abort(REASON);
      expect(await outcome, name).toEqual(ABORTED);
      expect(await outcomeOf(handle, () => call()), name).not.toEqual(ABORTED);
    });
  });

  test('closed right after a call, it ends the call, unless that outlives it', async () => {
    await forEachCall(async (handle, { name, member, call }) => {
      const outcome = outcomeOf(handle, () => call());
      handle.close();
      const outlives = handle.local && member.outlives !== undefined;
      if (outlives) expect(await outcome, name).toHaveProperty('value');
      else expect(await outcome, name).toMatchObject(CLOSED);
    });
  });

  test('ends a call that waits for a request', async () => {
    const sent: string[] = [];
    await forEachCall(async (handle, { name, call }, traffic) => {
      if (traffic === undefined) return;
      const release = traffic.hold();
      const scope = new AbortController();
      const first = await startRequest(traffic, () => outcomeOf(handle, () => call(scope.signal)));
      if (first.isSent) sent.push(name);
      scope.abort(REASON);
      if (first.isSent) expect(await first.outcome, name).toEqual(ABORTED);
      const second = await startRequest(traffic, () => outcomeOf(handle, () => call()));
      expect(second.isSent, name).toBe(first.isSent);
      handle.close();
      if (second.isSent) expect(await second.outcome, name).toMatchObject(CLOSED);
      release();
    });
    const bytes = ['getTensor', 'getSlice', 'getPartition', 'readTensors'];
    expect(sent).toEqual(expect.arrayContaining((await openKind(kind)).local ? [] : bytes));
  });
});
