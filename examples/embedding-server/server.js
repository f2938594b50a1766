/** The server: `POST /embed` and `POST /rows` with `{ "ids": [1, 2] }`, `GET /health`. */
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import fastify from 'fastify';
import { safeOpenAsync, watch } from 'safetensors-mmap';
import { megabytes, memory } from './memory.js';
import { Table } from './table.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    port: { type: 'string', default: '3000' },
    report: { type: 'string', default: '5' }, // seconds
  },
});
const [path = 'table.safetensors'] = positionals;
const MAX_PENDING = 1000;
const SHUTDOWN_MS = 10_000;
/** Requests that are on their way when the end begins are still answered. */
const GRACE_MS = 250;

// Before the table is opened, so that no version is missed.
const watcher = watch(path, async (error, next) => {
  await starting;
  try {
    if (error) throw error;
    const old = table;
    table = new Table(next);
    old.close();
    console.log(`serves version ${table.version}`);
  } catch (error) {
    // A bad file is no reason to stop: the old version stays.
    console.error(`still serves version ${table.version}: ${error.message}`);
  }
});

const starting = safeOpenAsync(path).then((file) => new Table(file));
// Each request uses the table that was current when it came: a new version cannot mix into its answer.
let table = await starting.catch((error) => {
  console.error(error.message);
  process.exit(1);
});

const app = fastify();
const ids = { type: 'array', minItems: 1, maxItems: 512, items: { type: 'integer', minimum: 0 } };
const schema = { body: { type: 'object', required: ['ids'], properties: { ids } } };
let pending = 0;
let answered = 0;
let isEnding = false;

app.addHook('onRequest', async (_, reply) => {
  // Rejecting some requests at once is better than delaying all.
  if (pending >= MAX_PENDING) return reply.code(503).header('retry-after', '1').send();
});
app.addHook('onSend', async (_, reply) => {
  // Or a client would keep the connection, and the server with it.
  if (isEnding) reply.header('connection', 'close');
});
app.addHook('onResponse', async () => {
  answered++;
});
app.setErrorHandler((error, _, reply) => {
  const isOfClient = error.validation || error.code === 'SAFETENSORS_SLICE_OUT_OF_RANGE';
  if (!isOfClient) console.error(error.message);
  const status = isOfClient ? 400 : (error.statusCode ?? 500);
  return reply.code(status).send({ code: error.code, message: error.message });
});

/** Counts a request as pending until its work ends. */
async function run(work) {
  pending++;
  try {
    return await work();
  } finally {
    pending--;
  }
}

app.post('/embed', { schema }, ({ body }) =>
  run(async () => {
    const { version } = table;
    return { version, embedding: Array.from(await table.embed(body.ids)) };
  }),
);

app.post('/rows', { schema }, ({ body }, reply) =>
  run(async () => {
    const { version } = table;
    const { dtype, shape, bytes } = await table.rows(body.ids);
    reply.headers({ 'x-version': version, 'x-dtype': dtype, 'x-shape': shape.join(',') });
    reply.type('application/octet-stream');
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  }),
);

app.get('/health', async () => {
  const { version, shape } = table;
  return { version, shape, ...memory(), answered, pid: process.pid };
});

function report() {
  const { privateBytes, fileBytes } = memory();
  const mapped = `${megabytes(fileBytes)} of files in memory`;
  console.log(
    `[${process.pid}] ${answered} answered, ${megabytes(privateBytes)} private, ${mapped}`,
  );
}
const reports = setInterval(report, 1000 * Number(values.report));

async function end(signal) {
  if (isEnding) return;
  isEnding = true;
  // Whatever hangs, hangs no longer than this.
  setTimeout(() => process.exit(1), SHUTDOWN_MS).unref();
  watcher.close();
  clearInterval(reports);
  await delay(GRACE_MS);
  await app.close(); // answers what it has, and takes no more
  table.close();
  report();
  console.log(`[${process.pid}] ended by ${signal}`);
}
process.on('SIGTERM', end);
process.on('SIGINT', end);

await app.listen({ host: '127.0.0.1', port: Number(values.port) });
const [rows, width] = table.shape;
console.log(`[${process.pid}] listens on port ${app.server.address().port}, ${rows} x ${width}`);
