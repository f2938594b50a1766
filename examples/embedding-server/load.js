/**
 * Load: asks the server for embeddings and rows with autocannon, and meanwhile puts the next version of the table into
 * its place. Exit code 1 when an answer is wrong, or private memory grew.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import autocannon from 'autocannon';
import { makeTable } from './make-table.js';
import { megabytes } from './memory.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    port: { type: 'string', default: '3000' },
    seconds: { type: 'string', default: '10' },
    connections: { type: 'string', default: '20' },
  },
});
const [path = 'table.safetensors'] = positionals;
const url = `http://127.0.0.1:${values.port}`;
const IDS = 32;
/** What a process may need more after the load than after warming up: garbage that is not collected yet. */
const ALLOWED_GROWTH = 64e6;

const health = async () => (await fetch(`${url}/health`)).json();

function request(rows) {
  const ids = Array.from({ length: IDS }, () => Math.floor(Math.random() * rows));
  return { body: JSON.stringify({ ids }), headers: { 'content-type': 'application/json' } };
}

/** Every value of a row says which version it is from: all rows of an answer must be of one. */
async function checkRows(width, rows, seen) {
  const ids = Array.from({ length: IDS }, () => Math.floor(Math.random() * rows));
  const response = await fetch(`${url}/rows`, {
    method: 'POST',
    body: JSON.stringify({ ids }),
    headers: { 'content-type': 'application/json' },
  });
  if (!response.ok) throw new Error(`status ${response.status}`);
  const version = Number(response.headers.get('x-version'));
  const items = new Uint16Array(await response.arrayBuffer());
  for (const [i, id] of ids.entries()) {
    if (half(items[i * width]) !== version)
      throw new Error(`a row of another version, in ${version}`);
    if (half(items[i * width + 1]) !== id % 2048) throw new Error(`not row ${id}`);
  }
  seen.add(version);
}

/** An integer from 0 to 2048 as F16. */
function half(bits) {
  if (bits === 0) return 0;
  return (1 + (bits & 0x3ff) / 1024) * 2 ** ((bits >> 10) - 15);
}

function cannon(seconds, rows) {
  return autocannon({
    url: `${url}/embed`,
    method: 'POST',
    connections: Number(values.connections),
    duration: seconds,
    requests: [{ setupRequest: (one) => ({ ...one, ...request(rows) }) }],
  });
}

const { shape, version } = await health();
const [rows, width] = shape;
const seconds = Number(values.seconds);
await cannon(Math.max(2, seconds / 4), rows);
const before = await health();

const seen = new Set();
let running = true;
const checking = (async () => {
  while (running) {
    await checkRows(width, rows, seen);
    await delay(20);
  }
})();
const swapping = delay((1000 * seconds) / 4).then(() =>
  makeTable(path, { rows, width, version: Number(version) + 1 }),
);
const [result] = await Promise.all([cannon(seconds, rows), swapping]);
await delay(1500);
running = false;
await checking;
const after = await health();

const failed = result.errors + result.timeouts + result.non2xx;
console.log(
  `${Math.round(result.requests.average)} requests of ${IDS} rows per second, ${failed} failed`,
);
console.log(`latency: median ${result.latency.p50} ms, 99 % within ${result.latency.p99} ms`);
console.log(`versions in the answers: ${[...seen].join(', ')}`);
const [was, is] = [before.privateBytes, after.privateBytes];
console.log(
  `private memory: ${megabytes(was)} before, ${megabytes(is)} after ${after.answered} answers`,
);
console.log(`the table has ${megabytes(2 * rows * width)}`);
// Behind a cluster, each question may reach another process.
if (failed > 0 || is - was > ALLOWED_GROWTH || !seen.has(Number(version) + 1)) process.exitCode = 1;
