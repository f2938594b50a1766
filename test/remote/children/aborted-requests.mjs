// Aborts a thousand requests at every stage, by signals and by closing, and prints the leftovers: sockets by the
// server's count; timers, listeners and descriptors by this process's.
import { fork } from 'node:child_process';
import { getEventListeners, once } from 'node:events';
import { readdirSync } from 'node:fs';
import { createServer } from 'node:http';
import process from 'node:process';
import { setTimeout as sleep } from 'node:timers/promises';

const REQUESTS = 1000;
const AT_ONCE = 50;

/** Answers late, breaks, sends slowly or asks to come back, by the name of the file. */
function serve() {
  const server = createServer(({ url }, response) => {
    if (url.includes('silent')) return;
    if (url.includes('broken')) return void response.destroy();
    if (url.includes('busy')) return void response.writeHead(503, { 'Retry-After': '30' }).end();
    response.writeHead(206, { 'Content-Range': 'bytes 0-999999/1000000', 'Content-Length': 1e6 });
    const timer = setInterval(() => response.write(new Uint8Array(100)), 2);
    response.on('close', () => clearInterval(timer));
  });
  server.listen(0, '127.0.0.1', () => process.send(server.address().port));
  process.on('message', () => {
    server.getConnections((_, count) => process.send(count));
  });
  process.on('disconnect', () => process.exit());
}

async function abortAll() {
  const { resolveSource } = await import('../../../build/remote/source.js');
  const server = fork(new URL(import.meta.url), ['server']);
  const [port] = await once(server, 'message');
  const settings = { endpoint: 'https://huggingface.co', readToken: () => undefined };
  const long = new AbortController();

  const abortOne = async (number) => {
    const kind = ['silent', 'broken', 'busy', 'slow'][number % 4];
    const url = `http://127.0.0.1:${port}/${kind}.safetensors`;
    const source = await resolveSource(url, { startByteLength: 1 }, settings, long.signal);
    const own = new AbortController();
    const signal = number % 3 === 0 ? long.signal : own.signal;
    const reading = source.file.readStart(1e6, signal).then(
      () => 'read',
      (error) => error.code,
    );
    await sleep(number % 20);
    if (signal === own.signal && number % 3 === 1) own.abort();
    else source.close();
    const code = await reading;
    source.close();
    return code;
  };

  const count = async () => {
    server.send('count');
    const [sockets] = await once(server, 'message');
    return {
      sockets,
      resources: process.getActiveResourcesInfo().filter((name) => /Timeout|TCP|TLS/.test(name)),
      descriptors: readdirSync('/proc/self/fd').length,
    };
  };

  const before = await count();
  const codes = new Set();
  for (let at = 0; at < REQUESTS; at += AT_ONCE) {
    const numbers = Array.from({ length: AT_ONCE }, (_, i) => at + i);
    for (const code of await Promise.all(numbers.map(abortOne))) codes.add(code);
  }
  const listeners = getEventListeners(long.signal, 'abort').length;
  let after = await count();
  const atOnce = after;
  // Connections that can be used again are kept for some seconds, by both sides.
  for (let waited = 0; after.sockets > 0 && waited < 15_000; waited += 500) {
    await sleep(500);
    after = await count();
  }
  console.log(JSON.stringify({ codes: [...codes], listeners, before, atOnce, after }));
  server.disconnect();
}

if (process.argv[2] === 'server') serve();
else await abortAll();
