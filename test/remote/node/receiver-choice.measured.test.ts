/** A process that receives by `fetch` and over its own sockets, and the time until it ends. */
import { describe, expect, it } from 'vitest';
import { measureInChild } from '../../support/run-child.js';

describe('a process', () => {
  const env = (certificates: string): NodeJS.ProcessEnv => ({ NODE_EXTRA_CA_CERTS: certificates });
  const certificate = new URL('../../fixtures/self-signed/cert.pem', import.meta.url).pathname;

  it('receives over TLS with its certificates, and ends without waiting for kept connections', async () => {
    const { isByFetch, idleMs } = await measureInChild<{ isByFetch: boolean[]; idleMs: number }>(
      'remote/children/received-range.mjs',
      [],
      { env: env(certificate) },
    );
    expect(isByFetch).toEqual([true, false, false, true, false, false]);
    // Kept connections end after 4 s.
    expect(idleMs).toBeLessThan(3500);
  });
});
