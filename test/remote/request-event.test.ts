/** Events of remote requests on Node's channel `safetensors-mmap:request`. */
import { channel, subscribe, unsubscribe } from 'node:diagnostics_channel';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { download, openRemote, type RequestEvent } from '../support/api.js';
import { fileBytes, temporaryPath } from '../support/make-file.js';

const NAME = 'safetensors-mmap:request';
const SECRET = 'hf_secret';

const file = fileBytes([{ name: 't', dtype: 'U8', shape: [9_000_000] }]);
let answer: (request: IncomingMessage, response: ServerResponse) => void;
let server: Server;
let origin: string;
let events: RequestEvent[];
const record = (event: unknown): void => void events.push(event as RequestEvent);

beforeAll(async () => {
  server = createServer((request, response) => answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => server.close());

beforeEach(() => {
  events = [];
  answer = serve;
  subscribe(NAME, record);
});

afterEach(() => unsubscribe(NAME, record));

function serve(request: IncomingMessage, response: ServerResponse): void {
  const [, first = '', last = ''] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
  const [begin, end] = [Number(first), Math.min(Number(last) + 1, file.length)];
  const headers = { 'Content-Range': `bytes ${begin}-${end - 1}/${file.length}`, ETag: '"1"' };
  response.writeHead(206, headers).end(file.subarray(begin, end));
}

const url = (): string => `${origin}/model.safetensors?signature=${SECRET}`;

it('a request is told with URL, range, status, bytes and times', async () => {
  const before = performance.now();
  await openRemote(url(), { token: SECRET });
  const shown = `${origin}/model.safetensors`;
  expect(events).toEqual([
    {
      url: shown,
      answeredBy: shown,
      range: 'bytes=0-99999',
      status: 206,
      downloadedBytes: 100_000,
      startTime: expect.any(Number),
      headersDuration: expect.any(Number),
      duration: expect.any(Number),
      try: 1,
      error: null,
    },
  ]);
  const [event] = events as [RequestEvent];
  expect(event.startTime).toBeGreaterThanOrEqual(before);
  expect(event.headersDuration).toBeLessThanOrEqual(event.duration);
  expect(event.startTime + event.duration).toBeLessThanOrEqual(performance.now());
  expect(JSON.stringify(events)).not.toContain(SECRET);
});

it('each try has its event, and an error without secrets', async () => {
  let count = 0;
  answer = (request, response) => {
    if (count++ === 0) response.writeHead(503, { 'retry-after': '0' }).end();
    else serve(request, response);
  };
  await openRemote(url(), { token: SECRET });
  expect(events.map((event) => [event.status, event.try, event.error === null])).toEqual([
    [503, 1, false],
    [206, 2, true],
  ]);
  expect(events[0]?.error).toMatchObject({ code: 'SAFETENSORS_REMOTE_UNAVAILABLE', status: 503 });
});

it('redirects belong to the request', async () => {
  answer = (request, response) => {
    if (request.url?.startsWith('/elsewhere')) serve(request, response);
    else response.writeHead(302, { location: `/elsewhere?token=${SECRET}` }).end();
  };
  await openRemote(url());
  expect(events).toMatchObject([
    { url: `${origin}/model.safetensors`, answeredBy: `${origin}/elsewhere`, status: 206 },
  ]);
  expect(JSON.stringify(events)).not.toContain(SECRET);
});

it('a refusal is told once', async () => {
  answer = (_, response) => void response.writeHead(404).end();
  await expect(openRemote(url(), { token: SECRET })).rejects.toThrow();
  expect(events).toMatchObject([
    { status: 404, try: 1, error: { code: 'SAFETENSORS_REMOTE_NOT_FOUND' } },
  ]);
});

it('so is an abort', async () => {
  const controller = new AbortController();
  answer = () => controller.abort(new Error('enough'));
  await expect(openRemote(url(), { signal: controller.signal })).rejects.toThrow('enough');
  expect(events).toMatchObject([
    { status: null, headersDuration: null, error: { name: 'AbortError' } },
  ]);
});

it('a download has the bytes of its file', async () => {
  await download(url(), temporaryPath('downloaded.safetensors'), { durable: false });
  const received = events.reduce((sum, event) => sum + event.downloadedBytes, 0);
  expect(events.length).toBeGreaterThan(2);
  expect(received).toBeGreaterThanOrEqual(file.length);
  expect(received).toBeLessThan(file.length + 100_000);
});

describe('without a subscriber', () => {
  it('no event is made', async () => {
    unsubscribe(NAME, record);
    const published: unknown[] = [];
    const watched = channel(NAME);
    const { publish } = watched;
    watched.publish = (event) => void published.push(event);
    await openRemote(url());
    watched.publish = publish;
    expect([events, published]).toEqual([[], []]);
  });
});
