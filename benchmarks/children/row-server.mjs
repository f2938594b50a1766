/**
 * A server of rows under load, as an embedding server is. Arguments: METHOD FILE REQUESTS. METHOD is how rows are read.
 * A second process, whose method is `load`, requests random rows over 64 connections, one after the other on each.
 * Prints the requests a second, the ms of a thousand, the 50th and 99th percentile of their ms, and the private memory
 * of the server. An eighth as many requests come first and are not counted: servers run for days, and the engine
 * compiles both programs in the first second.
 */
import { fork } from 'node:child_process';
import { once } from 'node:events';
import { open } from 'node:fs/promises';
import { createServer } from 'node:http';
import { connect } from 'node:net';
import { safeOpen } from 'safetensors-mmap';
import { readMemory } from './memory.mjs';

const CONNECTIONS = 64;
const [method, path, count] = process.argv.slice(2);

async function serve() {
  const table = safeOpen(path).getTensor('table');
  const handle = await open(path);
  const { buffer: start } = await handle.read(new BigUint64Array(1), 0, 8, 0);
  const dataStart = 8 + Number(start[0]);
  const rowLength = table.byteLength / table.shape[0];
  const read = {
    take: async (row) => (await table.takeAsync([row])).bytes,
    read: async (row) => {
      const bytes = Buffer.allocUnsafe(rowLength);
      await handle.read(bytes, 0, rowLength, dataStart + row * rowLength);
      return bytes;
    },
  }[method];
  const server = createServer(async (request, response) => {
    response.end(await read(Number(request.url.slice(1))));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address();
  const load = fork(import.meta.filename, ['load', String(port), count, String(table.shape[0])]);
  const [figures] = await once(load, 'message');
  console.log(JSON.stringify({ ...figures, anonymous: readMemory().anonymous }));
  server.close();
  await handle.close();
}

/** Asks, and waits for as many bytes as the first answer has. */
async function ask(port, requests, nextRow, times) {
  const socket = connect(port, '127.0.0.1').setNoDelay();
  await once(socket, 'connect');
  let [length, received, start] = [Number.NaN, 0, 0];
  let done;
  socket.on('data', (bytes) => {
    received += bytes.length;
    if (Number.isNaN(length)) {
      const head = bytes.indexOf('\r\n\r\n');
      length = head + 4 + Number(/content-length: (\d+)/i.exec(bytes.latin1Slice(0, head))[1]);
    }
    if (received === length) done();
  });
  for (let i = 0; i < requests; i++) {
    const answered = new Promise((resolve) => (done = resolve));
    received = 0;
    length = Number.NaN;
    start = performance.now();
    socket.write(`GET /${nextRow()} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`);
    await answered;
    times.push(performance.now() - start);
  }
  socket.destroy();
}

async function load() {
  const [, port, requests, height] = process.argv.slice(2).map(Number);
  let state = 1;
  const nextRow = () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state % height;
  };
  const askFor = async (count, times) => {
    const each = Math.ceil(count / CONNECTIONS);
    await Promise.all(Array.from({ length: CONNECTIONS }, () => ask(port, each, nextRow, times)));
  };
  await askFor(requests / 8, []);
  const times = [];
  const start = performance.now();
  await askFor(requests, times);
  const elapsed = performance.now() - start;
  const perSecond = Math.round((times.length * 1000) / elapsed);
  const answerTime = (1000 * elapsed) / times.length;
  const [p50, p99] = [0.5, 0.99].map(
    (part) => times.sort((a, b) => a - b)[Math.floor(times.length * part)],
  );
  process.send({ perSecond, answerTime, p50, p99 });
  process.disconnect();
}

await (method === 'load' ? load() : serve());
