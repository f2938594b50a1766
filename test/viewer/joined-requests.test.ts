/** Requests of the viewer that share one: a request that is aborted while it waits is rejected. */
import { afterEach, expect, it, vi } from 'vitest';
import { joinedFetch } from '../../viewer/worker/joined-requests.js';

afterEach(() => vi.unstubAllGlobals());

it('rejects a range that is aborted before its request is sent, and sends no request', async () => {
  const sent = vi.fn();
  vi.stubGlobal('fetch', sent);
  const joined = joinedFetch({}, () => {});
  const controller = new AbortController();
  const range = joined('http://127.0.0.1:1/source/0/a.safetensors', {
    headers: new Headers({ range: 'bytes=0-7' }),
    signal: controller.signal,
  });
  const reason = new Error('enough');
  controller.abort(reason);
  await expect(range).rejects.toBe(reason);
  expect(sent).not.toHaveBeenCalled();
});
