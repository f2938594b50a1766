// Tells every lie to the wire of this runtime, and prints the failures as one line of JSON: names and messages.
// Bundled with `src/remote/source`, it runs in any runtime.
import { resolveSource } from '../../src/remote/source.js';
import { LyingServers, makeLies, tellLie } from './lies.mjs';

const servers = await LyingServers.start();
const lies = makeLies();
const outcomes = await Promise.allSettled(
  lies.map((lie) => tellLie(servers, lie, resolveSource, { firstDelayMs: 20 })),
);
servers.close();
const failures = outcomes.flatMap(({ reason }, i) =>
  reason === undefined ? [] : [`${lies[i].name}: ${reason?.stack ?? reason}`],
);
console.log(JSON.stringify({ lies: lies.length, failures }));
