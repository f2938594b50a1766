/** Files that come whole, from servers without ranges: every try starts over, and the hash decides. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { join } from 'node:path';
import { createGzip } from 'node:zlib';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { runDownload } from '../../../src/remote/download/run-download.js';
import { emptyFolder, namesIn, startedNoise } from './downloads.js';

const FILE = startedNoise(5_000_000);
const HASH = createHash('sha256').update(FILE).digest('hex');

let answer: (response: ServerResponse, request: IncomingMessage) => void;
let requests: (string | undefined)[] = [];
let server: Server;
let endpoint = '';
let path = '';

beforeAll(async () => {
  server = createServer((request, response) => {
    const { url = '' } = request;
    const oid = { path: 'model.safetensors', type: 'file', size: FILE.length, lfs: { oid: HASH } };
    if (url.startsWith('/api/')) {
      response.end(JSON.stringify(url.includes('/tree/') ? [oid] : { sha: 'a'.repeat(40) }));
      return;
    }
    requests.push(request.headers.range);
    answer(response, request);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  endpoint = `http://127.0.0.1:${Object(server.address()).port}`;
});
afterAll(() => {
  server.close();
  server.closeAllConnections();
});
let folders = 0;
function newTarget(): void {
  requests = [];
  path = join(emptyFolder(`target-${folders++}`), 'my.safetensors');
}
beforeEach(newTarget);

const hubFile = (): string => `${endpoint}/org/name/resolve/main/model.safetensors`;

async function download(source: string, onProgress?: (bytes: number) => void): Promise<number> {
  const settings = { endpoint, isOffline: false, readToken: () => undefined };
  const progress = ({ bytes }: { bytes: number }): void => onProgress?.(bytes);
  const options = { durable: false, firstDelayMs: 1, onProgress: progress };
  return (await runDownload(source, path, options, settings)).downloadedBytes;
}

function sendWhole(response: ServerResponse): void {
  response.writeHead(200, { ETag: '"one"', 'Content-Length': FILE.length }).end(FILE);
}

/** Requests without a range so far. */
const wholeRequests = (): number => requests.filter((range) => range === undefined).length;

it('starts over when the connection breaks', async () => {
  answer = (response, { headers }) => {
    if (headers.range !== undefined || wholeRequests() > 2) sendWhole(response);
    else {
      response.writeHead(200, { ETag: '"one"', 'Content-Length': FILE.length });
      response.write(FILE.subarray(0, 2_000_000), () => response.destroy());
    }
  };
  const counts: number[] = [];
  expect(await download(hubFile(), (bytes) => counts.push(bytes))).toBe(FILE.length);
  expect(readFileSync(path).equals(FILE)).toBe(true);
  expect(wholeRequests()).toBe(3);
  expect(Math.max(...counts)).toBe(FILE.length);
});

it('starts over, too, with bytes of an earlier download by ranges', async () => {
  answer = (response, { headers }) => {
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
    const [begin, end] = [Number(first), Math.min(Number(last) + 1, FILE.length)];
    const range = `bytes ${begin}-${end - 1}/${FILE.length}`;
    response.writeHead(206, { ETag: '"one"', 'Content-Range': range });
    if (end - begin < 1000) response.end(FILE.subarray(begin, end));
    else response.write(FILE.subarray(begin, begin + 1_200_000), () => response.destroy());
    if (requests.length > 2) response.destroy();
  };
  await expect(download(hubFile())).rejects.toMatchObject({
    code: 'SAFETENSORS_REMOTE_UNAVAILABLE',
  });
  expect(namesIn(join(path, '..')).join()).toContain('.incomplete');
  answer = sendWhole;
  expect(await download(hubFile())).toBe(FILE.length);
  expect(readFileSync(path).equals(FILE)).toBe(true);
  expect(namesIn(join(path, '..'))).toEqual(['my.safetensors']);
});

it.each([400, 501, 416])('is asked for without a range after status %i', async (status) => {
  answer = (response, { headers }) => {
    if (headers.range === undefined) sendWhole(response);
    else response.writeHead(status).end();
  };
  for (const source of [hubFile(), `${endpoint}/model.safetensors`]) {
    newTarget();
    expect(await download(source)).toBe(FILE.length);
    expect(readFileSync(path).equals(FILE)).toBe(true);
  }
  answer = (response) => response.writeHead(status).end();
  newTarget();
  await expect(download(hubFile())).rejects.toMatchObject({
    code: 'SAFETENSORS_BAD_RESPONSE',
    status,
  });
});

it('receives bytes with another hash once more', async () => {
  const changed = FILE.with(2_500_000, 255 - Number(FILE[2_500_000]));
  answer = (response) => {
    if (wholeRequests() < 2) response.writeHead(200).end(changed);
    else sendWhole(response);
  };
  await download(hubFile());
  expect(readFileSync(path).equals(FILE)).toBe(true);
  answer = (response) => response.writeHead(200).end(changed);
  newTarget();
  await expect(download(hubFile())).rejects.toThrow(`expected the Hub's hash ${HASH}, found`);
});

it('decompresses no more than the known length', async () => {
  const closed: boolean[] = [];
  answer = (response) => {
    const number = closed.push(false) - 1;
    response.writeHead(200, { 'Content-Encoding': 'gzip' });
    const gzip = createGzip();
    gzip.pipe(response);
    const zeros = Buffer.alloc(2 ** 20);
    const more = (): void => {
      if (closed[number] === false) gzip.write(zeros, more);
    };
    response.on('close', () => {
      closed[number] = true;
    });
    more();
  };
  await expect(download(hubFile())).rejects.toMatchObject({
    code: 'SAFETENSORS_BAD_RESPONSE',
    message: expect.stringContaining(`expected a body of ${FILE.length} bytes in all, found more`),
  });
  await expect.poll(() => closed.every(Boolean)).toBe(true);
});

it('of a server without a list has the version of the first answer', async () => {
  let count = 0;
  answer = (response) => {
    const ETag = ++count < 3 ? '"one"' : '"two"';
    response.writeHead(200, { ETag, 'Content-Length': FILE.length }).end(FILE);
  };
  const source = `${endpoint}/model.safetensors`;
  await expect(download(source)).rejects.toMatchObject({ code: 'SAFETENSORS_FILE_CHANGED' });
  count = -10;
  expect(await download(source)).toBe(FILE.length);
  expect(readFileSync(path).equals(FILE)).toBe(true);
});

it('is no web page', async () => {
  answer = (response, { headers }) => {
    response.setHeader('Content-Type', 'text/html');
    const page = `<!doctype html>${' '.repeat(1000)}`;
    response.writeHead(200, { 'Content-Length': headers.range === undefined ? 1015 : 5 });
    response.end(page.slice(0, headers.range === undefined ? 1015 : 5));
  };
  await expect(download(`${endpoint}/model.safetensors`)).rejects.toMatchObject({
    code: 'SAFETENSORS_BAD_RESPONSE',
    foundFormat: 'html',
  });
});
