/** The server: `POST /embed` and `POST /rows` with `{ "ids": [1, 2] }`, `GET /health`. */
import { availableParallelism } from 'node:os';
import { parseArgs } from 'node:util';
import fastify from 'fastify';
import { watch } from 'safetensors-mmap';
import { megabytes, memory } from './memory.js';
import { JobError, Pool } from './pool.js';

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    port: { type: 'string', default: '3000' },
    threads: { type: 'string', default: String(availableParallelism()) },
    report: { type: 'string', default: '5' }, // seconds
  },
});
const [path = 'table.safetensors'] = positionals;
const MAX_PENDING = 1000;
const SHUTDOWN_MS = 10_000;

// Before the threads open the table, so that no version is missed.
const watcher = watch(path, async (error, next) => {
  const pool = await starting;
  try {
    if (error) throw error;
    next.close(); // every thread opens it itself
    await pool.reload();
    console.log(`serves version ${pool.table.version}`);
  } catch (error) {
    // A bad file is no reason to stop: the old one stays.
    console.error(`still serves version ${pool.table.version}: ${error.message}`);
  }
});

const starting = Pool.start(path, Number(values.threads));
const pool = await starting.catch((error) => {
  console.error(error.message);
  process.exit(1);
});

const app = fastify();
const ids = { type: 'array', minItems: 1, maxItems: 512, items: { type: 'integer', minimum: 0 } };
const schema = { body: { type: 'object', required: ['ids'], properties: { ids } } };
let answered = 0;
let isEnding = false;

app.addHook('onRequest', async (_, reply) => {
  // To say no at once is better than to let everybody wait.
  if (pool.pending >= MAX_PENDING) return reply.code(503).header('retry-after', '1').send();
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
  const status = isOfClient ? 400 : error instanceof JobError ? 500 : (error.statusCode ?? 500);
  return reply.code(status).send({ code: error.code, message: error.message });
});

app.post('/embed', { schema }, async ({ body }) => {
  const { version, values } = await pool.run('embed', { ids: body.ids });
  return { version, embedding: Array.from(values) };
});

app.post('/rows', { schema }, async ({ body }, reply) => {
  const { version, dtype, shape, values } = await pool.run('rows', { ids: body.ids });
  reply.headers({ 'x-version': version, 'x-dtype': dtype, 'x-shape': shape.join(',') });
  reply.type('application/octet-stream');
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength);
});

app.get('/health', async () => ({ ...pool.table, ...memory(), answered, pid: process.pid }));

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
  await app.close(); // answers what it has, and takes no more
  await pool.close();
  report();
  console.log(`[${process.pid}] ended by ${signal}`);
}
process.on('SIGTERM', end);
process.on('SIGINT', end);

await app.listen({ host: '127.0.0.1', port: Number(values.port) });
const [rows, width] = pool.table.shape;
console.log(`[${process.pid}] listens on port ${app.server.address().port}, ${rows} x ${width}`);
