/** Requests leave only connections, which the next request uses. */
import { describe, expect, it } from 'vitest';
import { nightly } from '../support/nightly.js';
import { measureInChild } from '../support/run-child.js';

interface Counts {
  readonly sockets: number;
  readonly resources: readonly string[];
  readonly descriptors: number;
}

interface Aborted {
  readonly codes: readonly unknown[];
  readonly listeners: number;
  readonly before: Counts;
  readonly atOnce: Counts;
  readonly after: Counts;
}

describe.concurrent('requests', () => {
  it('that are aborted, a thousand, leave no timer and no listener, and soon no socket and descriptor', async () => {
    const { codes, listeners, before, atOnce, after } = await measureInChild<Aborted>(
      'remote/children/aborted-requests.mjs',
    );
    // 20 is the code of an AbortError.
    expect(new Set(codes)).toEqual(new Set(['SAFETENSORS_FILE_CLOSED', 20]));
    expect(listeners).toBe(0);
    expect(atOnce.resources).not.toContain('Timeout');
    expect(after).toEqual({ sockets: 0, resources: [], descriptors: before.descriptors });
  });

  it('of a byte per second are ended by their signal, and by the limit', async () => {
    // At night by the limit that users get, which takes half a minute.
    const limit = nightly([], ['1500']);
    const ends = await measureInChild('remote/children/slow-server.mjs', limit);
    expect(ends).toEqual({
      aborted: 'TimeoutError',
      stalled: 'RemoteError SAFETENSORS_REMOTE_STALLED',
    });
  });
});
