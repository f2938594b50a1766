/** A lying server: every lie ends in an error with a code, or does no harm. */
import { afterAll, beforeAll, describe, it } from 'vitest';
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
