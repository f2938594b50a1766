/** Serves ranges of one file on this machine. Arguments: PROTOCOL FILE. Prints its URL, and ends with standard input. */
import { openSync, readFileSync, readSync, statSync } from 'node:fs';
import { createServer } from 'node:http';
import { createServer as createTlsServer } from 'node:https';

const [protocol, path] = process.argv.slice(2);
const PIECE_BYTES = 2 ** 20;
const { size } = statSync(path);
const fd = openSync(path, 'r');
const certificates = new URL('../../test/fixtures/self-signed/', import.meta.url);

function answer({ headers }, response) {
  const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
  const start = Number(first ?? 0);
  const end = Math.min(Number(last ?? size), size - 1);
  response.writeHead(first === undefined ? 200 : 206, {
    'Content-Length': end - start + 1,
    'Content-Range': `bytes ${start}-${end}/${size}`,
    ETag: '"1"',
  });
  let at = start;
  const sendNext = () => {
    if (at > end) return void response.end();
    const piece = Buffer.allocUnsafe(Math.min(PIECE_BYTES, end + 1 - at));
    // From the page cache: faster than the way over the thread pool, for which there are no cores left.
    at += readSync(fd, piece, 0, piece.length, at);
    response.write(piece, (error) => error ?? sendNext());
  };
  sendNext();
}

const [key, cert] = ['key.pem', 'cert.pem'].map((name) =>
  readFileSync(new URL(name, certificates)),
);
const server = protocol === 'https' ? createTlsServer({ key, cert }, answer) : createServer(answer);
server.listen(0, '127.0.0.1', () => {
  console.log(JSON.stringify(`${protocol}://127.0.0.1:${server.address().port}/model.safetensors`));
});
for await (const _ of process.stdin);
process.exit();
