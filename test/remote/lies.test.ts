/** A lying server: every lie ends in an error with a code, or does no harm, whichever way its bytes come. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { SocketReceiver } from '../../src/remote/node/receiver.js';
import { resolveSource } from '../../src/remote/source.js';
import { LyingServers, makeLies, tellLie } from '../support/lies.mjs';

let servers: LyingServers;

beforeAll(async () => {
  servers = await LyingServers.start();
});

afterAll(() => servers.close());

describe.concurrent('a server that', () => {
  for (const lie of makeLies()) {
    it(lie.name, async () => {
      await tellLie(servers, lie, resolveSource, { firstDelayMs: 20 });
    });
  }
});

describe.concurrent('a server, asked over sockets of our own, that', () => {
  const ask = vi.spyOn(SocketReceiver.prototype, 'ask');
  const makeReceiver = (): SocketReceiver => new SocketReceiver(1);

  for (const lie of makeLies()) {
    it(lie.name, async () => {
      await tellLie(servers, lie, resolveSource, { firstDelayMs: 20, makeReceiver });
    });
  }

  afterAll(() => expect(ask.mock.calls.length).toBeGreaterThan(50));
});
