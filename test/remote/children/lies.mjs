// Tells every lie to the compiled modules, without a test runner: `node test/remote/children/lies.mjs`, or
// with another runtime. Prints the lies that did harm.
import process from 'node:process';
import { resolveSource } from '../../../build/remote/source.js';
import { LyingServers, makeLies, tellLie } from '../../support/lies.mjs';

const servers = await LyingServers.start();
const lies = makeLies();
const failures = [];
await Promise.all(
  lies.map(async (lie) => {
    try {
      await tellLie(servers, lie, resolveSource, { firstDelayMs: 20 });
    } catch (error) {
      failures.push(`${lie.name}: ${error.stack}`);
    }
  }),
);
servers.close();
for (const failure of failures) console.error(failure);
console.log(JSON.stringify({ told: lies.length, failed: failures.length }));
process.exitCode = failures.length === 0 ? 0 : 1;
