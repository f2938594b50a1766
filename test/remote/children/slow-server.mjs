// Reads from a server that sends a byte per second, with the limit of `argv[2]` milliseconds, or the default one. Prints
// the results.
import { createServer } from 'node:http';
import process from 'node:process';
import { resolveSource } from '../../../build/remote/source.js';

const server = createServer(({ headers }, response) => {
  const [, begin, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range);
  response.writeHead(206, { 'Content-Range': `bytes ${begin}-${last}/100000` });
  const timer = setInterval(() => response.write('x'), 1000);
  response.on('close', () => clearInterval(timer));
});
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
const url = `http://127.0.0.1:${server.address().port}/slow.safetensors`;
const settings = { endpoint: 'https://huggingface.co', readToken: () => undefined };
const { signal } = new AbortController();
const [, , limit] = process.argv;
const options = {
  startByteLength: 100_000,
  ...(limit === undefined ? {} : { stallMs: Number(limit), firstDelayMs: 1 }),
};
const source = await resolveSource(url, options, settings, signal);

async function endOf(given) {
  return await source.file.readStart(100_000, given).then(
    () => 'read',
    (error) => error.name + (typeof error.code === 'string' ? ` ${error.code}` : ''),
  );
}

const [stalled, aborted] = await Promise.all([endOf(), endOf(AbortSignal.timeout(200))]);
source.close();
server.close();
server.closeAllConnections();
console.log(JSON.stringify({ stalled, aborted }));
