/** The same server in several processes behind one port. They share the pages of the table as threads do. */
import cluster from 'node:cluster';
import { fileURLToPath } from 'node:url';

const PROCESSES = Number(process.env.PROCESSES ?? 2);
/** A process that ends sooner than this never worked: no use to start it again. */
const SHORTEST_LIFE_MS = 2000;

cluster.setupPrimary({
  exec: fileURLToPath(new URL('server.js', import.meta.url)),
  args: process.argv.slice(2),
});

let isEnding = false;
function start() {
  const worker = cluster.fork();
  const startedAt = Date.now();
  worker.once('exit', (code, signal) => {
    if (isEnding) return;
    console.error(`[${worker.process.pid}] ended with ${signal ?? code}`);
    if (Date.now() - startedAt > SHORTEST_LIFE_MS) start();
    else end('a process that does not start', 1);
  });
}

function end(reason, exitCode = 0) {
  if (isEnding) return;
  isEnding = true;
  process.exitCode = exitCode;
  console.log(`ends all: ${reason}`);
  for (const worker of Object.values(cluster.workers)) worker.process.kill('SIGTERM');
}
process.on('SIGTERM', () => end('SIGTERM'));
process.on('SIGINT', () => end('SIGINT'));

for (let i = 0; i < PROCESSES; i++) start();
