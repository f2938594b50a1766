/**
 * Lets connections through to other ports, and adds latency to every round trip. Prints its own ports, in the
 * order of the others, and ends with its standard input. Arguments: MILLISECONDS PORT…
 */
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const [delay, ...targets] = process.argv.slice(2).map(Number);

/** Sends on what one side says, half of the latency later. */
async function forward(from, to, connected) {
  let last = connected;
  try {
    for await (const piece of from) {
      const due = sleep(delay / 2);
      // One after the other: timers that are due at the same time may end in any order.
      last = Promise.all([last, due]).then(() => to.write(piece));
    }
    await Promise.all([last, sleep(delay / 2)]);
    to.end();
  } catch {
    to.destroy();
  }
}

async function listen(port) {
  const server = createServer({ noDelay: true }, (client) => {
    const upstream = connect({ port, host: '127.0.0.1', noDelay: true });
    for (const socket of [client, upstream]) socket.on('error', () => socket.destroy());
    // A new connection costs a round trip more, before its first byte.
    const connected = sleep(delay);
    void forward(client, upstream, connected);
    void forward(upstream, client, connected);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server.address().port;
}

console.log(JSON.stringify(await Promise.all(targets.map(listen))));
for await (const _ of process.stdin);
process.exit();
