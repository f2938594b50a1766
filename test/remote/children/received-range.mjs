// Fetches a range over http and https from servers whose sockets do not keep this process, and never closes the source.
// At the end prints by which way the ranges came, and how long the process has lived without need.
import { readFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import process from 'node:process';
import { remoteSettings } from '../../../build/remote/node/settings.js';
import { resolveSource } from '../../../build/remote/source.js';

const file = Uint8Array.from({ length: 2 ** 22 }, (_, i) => (i * 7 + (i >> 8)) % 251);
const fixture = (name) =>
  readFileSync(new URL(`../../fixtures/self-signed/${name}`, import.meta.url));
const isByFetch = [];

function answer({ headers }, response) {
  isByFetch.push('sec-fetch-mode' in headers);
  const [begin, last] = headers.range.slice('bytes='.length).split('-').map(Number);
  const bytes = file.subarray(begin, last + 1);
  response.writeHead(206, {
    'Content-Range': `bytes ${begin}-${last}/${file.length}`,
    'Content-Length': bytes.length,
  });
  response.end(bytes);
}

async function read(server, host) {
  server.unref();
  server.on('connection', (socket) => socket.unref());
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `${host}:${server.address().port}/model.safetensors`;
  const { signal } = new AbortController();
  const { file: remote } = await resolveSource(
    url,
    { startByteLength: 1000 },
    remoteSettings(),
    signal,
  );
  await remote.readStart(1000);
  const target = new Uint8Array(2 ** 21);
  for (const begin of [1000, 2000]) {
    await remote.readInto(target, begin);
    if (Buffer.compare(target, file.subarray(begin, begin + target.length)) !== 0)
      throw new Error('other bytes');
  }
}

await read(createServer(answer), 'http://localhost');
await read(
  createTlsServer({ key: fixture('key.pem'), cert: fixture('cert.pem') }, answer),
  'https://127.0.0.1',
);
const done = performance.now();
process.on('exit', () => {
  console.log(JSON.stringify({ isByFetch, idleMs: performance.now() - done }));
});
