/**
 * The server of the soak, a separate process: models by ranges, connections that break, answers that come
 * late, and one model that changes under its readers. Prints its port. Argument: SEED
 */
import { createServer } from 'node:http';
import process from 'node:process';
import { serialize } from 'safetensors-mmap';
import { makeMetadata, makeTensors } from './models.mjs';
import { Random } from './random.mjs';

/** Rows of the models that stay, by name; `changing` is another version every few seconds. */
const ROWS = { small: 64, middle: 1024, large: 6144, changing: 512 };
const CHANGE_MS = 2000;

const random = new Random(Number(process.argv[2]));

async function makeModel(version, rows) {
  const metadata = makeMetadata(version, rows);
  return {
    bytes: serialize(await makeTensors(version, rows), { metadata }),
    tag: `"${version}-${rows}"`,
  };
}

const models = new Map();
for (const [i, [name, rows]] of Object.entries(ROWS).entries()) {
  models.set(name, await makeModel(i, rows));
}
let version = 100;
setInterval(async () => {
  models.set('changing', await makeModel(++version % 500, ROWS.changing));
}, CHANGE_MS);

const server = createServer((request, response) => {
  const model = models.get(/^\/([a-z]+)\.safetensors$/.exec(request.url)?.[1]);
  if (model === undefined) return void response.writeHead(404).end();
  const dice = random.unit();
  if (dice < 0.01) return void response.writeHead(503, { 'Retry-After': '0' }).end();
  if (dice < 0.02) return void request.socket.destroy();
  const { bytes, tag } = model;
  const [, first = '0', last = ''] = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? '') ?? [];
  const begin = Number(first);
  const end = last === '' ? bytes.length : Math.min(Number(last) + 1, bytes.length);
  const body = bytes.subarray(begin, end);
  response.writeHead(206, {
    ETag: tag,
    'Content-Range': `bytes ${begin}-${end - 1}/${bytes.length}`,
    'Content-Length': body.length,
  });
  if (dice < 0.04) {
    response.write(body.subarray(0, random.below(body.length)));
    setTimeout(() => request.socket.destroy(), random.below(20));
  } else if (dice < 0.2) {
    response.write(body.subarray(0, body.length >> 1));
    setTimeout(() => response.end(body.subarray(body.length >> 1)), random.below(30));
  } else {
    response.end(body);
  }
});
// Node's client keeps connections for a second less than this: none is left when the process rests.
server.keepAliveTimeout = 2000;
server.listen(0, '127.0.0.1', () => process.send(server.address().port));
process.on('disconnect', () => process.exit());
