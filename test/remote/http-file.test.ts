/** The requests of a file, and how they end. `lies.test.ts` has the faults of servers. */
import { createServer, type RequestListener } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { DEFAULT_HUB_SETTINGS } from '../../src/file/hub/settings.js';
import type { RemoteSource } from '../../src/remote/remote-file.js';
import { type ResolveOptions, resolveSource } from '../../src/remote/source.js';

const FILE = Uint8Array.from({ length: 10_000 }, (_, i) => i % 251);

const ends: (() => void)[] = [];

afterEach(() => {
  for (const end of ends.splice(0)) end();
});

/** Serves one file, and tells the connections and the ranges that it was asked for. */
async function serve(answer?: RequestListener): Promise<{
  url: string;
  sockets: Set<Socket>;
  ranges: (string | undefined)[];
}> {
  const sockets = new Set<Socket>();
  const ranges: (string | undefined)[] = [];
  const server = createServer((request, response) => {
    const { range } = request.headers;
    ranges.push(range);
    if (answer !== undefined) return answer(request, response);
    const [, begin, last] = /^bytes=(\d+)-(\d+)$/.exec(range ?? '') ?? [];
    const bytes = FILE.subarray(Number(begin), Number(last) + 1);
    const end = Number(begin) + bytes.length - 1;
    response.writeHead(206, {
      'Content-Range': `bytes ${begin}-${end}/${FILE.length}`,
      'Content-Length': bytes.length,
    });
    response.end(bytes);
  });
  server.on('connection', (socket) => sockets.add(socket));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  ends.push(() => {
    server.close();
    server.closeAllConnections();
  });
  const { port } = server.address() as AddressInfo;
  return { url: `http://127.0.0.1:${port}/model.safetensors`, sockets, ranges };
}

async function open(url: string, options: Partial<ResolveOptions> = {}): Promise<RemoteSource> {
  const { signal } = new AbortController();
  const given = { startByteLength: 1000, ...options };
  const source = await resolveSource(url, given, DEFAULT_HUB_SETTINGS, signal);
  ends.push(() => source.close());
  return source;
}

describe('a file', () => {
  it('is asked by one request for its start, and by one for a range', async () => {
    const { url, ranges } = await serve();
    const { file, kind } = await open(`${url}?key=1#part`);
    expect([kind, file.path]).toEqual(['file', url]);
    expect(ranges).toEqual([]);
    const { bytes, fileByteLength } = await file.readStart(100);
    expect([bytes, fileByteLength]).toEqual([FILE.slice(0, 100), FILE.length]);
    const target = new Uint8Array(50);
    let byteLength = 0;
    await file.readInto(target, 9950, { onBytes: (more) => (byteLength += more) });
    expect([target, byteLength]).toEqual([FILE.slice(9950), 50]);
    expect(ranges).toEqual(['bytes=0-99', 'bytes=9950-9999']);
  });

  it('that is shorter than what was asked is read whole, into memory of its length', async () => {
    const { url } = await serve();
    const { file } = await open(url);
    const { bytes, fileByteLength } = await file.readStart(100_000_000);
    expect([bytes, fileByteLength]).toEqual([FILE, FILE.length]);
    expect(bytes.buffer.byteLength).toBe(FILE.length);
  });

  it('asks nothing for no bytes', async () => {
    const { url, ranges } = await serve();
    const { file } = await open(url);
    await file.readInto(new Uint8Array(0), 10);
    expect(ranges).toEqual([]);
  });

  it('that ends before the range is an error', async () => {
    const { url } = await serve();
    const { file } = await open(url);
    await expect(file.readInto(new Uint8Array(100), 9950)).rejects.toMatchObject({
      code: 'SAFETENSORS_BAD_RESPONSE',
    });
  });

  it('uses one connection for requests one after the other', async () => {
    const { url, sockets } = await serve();
    const { file } = await open(url);
    for (let i = 0; i < 20; i++) {
      await file.readInto(new Uint8Array(2000), i * 100);
      // The connection is free when the event loop has turned.
      await sleep(1);
    }
    expect(sockets.size).toBe(1);
  });

  it('uses its connections again after redirects', async () => {
    const { url, sockets } = await serve((request, response) => {
      if (!request.url?.endsWith('?there')) {
        response.writeHead(302, { Location: '?there' }).end('moved'.repeat(100));
        return;
      }
      response.writeHead(206, { 'Content-Range': `bytes 0-9/${FILE.length}` });
      response.end(FILE.subarray(0, 10));
    });
    const { file } = await open(url);
    for (let i = 0; i < 5; i++) {
      await file.readStart(10);
      await sleep(1);
    }
    expect(sockets.size).toBe(1);
  });

  it('uses its connection again after an answer that is an error', async () => {
    const { url, sockets } = await serve((_, response) => {
      response.writeHead(404).end('not here'.repeat(100));
    });
    const { file } = await open(url);
    for (let i = 0; i < 5; i++) {
      await expect(file.readStart(10)).rejects.toMatchObject({ status: 404 });
      await sleep(1);
    }
    expect(sockets.size).toBe(1);
  });

  it('passes on what onBytes throws, at once', async () => {
    const { url, ranges } = await serve();
    const { file } = await open(url);
    const error = new Error('enough');
    const onBytes = (): void => {
      throw error;
    };
    await expect(file.readInto(new Uint8Array(10), 0, { onBytes })).rejects.toBe(error);
    expect(ranges.length).toBe(1);
  });

  it('reads the files beside it with its query', async () => {
    const urls: (string | undefined)[] = [];
    const { url } = await serve((request, response) => {
      urls.push(request.url);
      response.writeHead(404).end();
    });
    const { folder } = await open(`${url}?sas=1`);
    const beside = folder?.file('parts/a b#1.safetensors');
    expect(beside?.path).toBe(url.replace('model', 'parts/a%20b%231'));
    await expect(beside?.readStart(1)).rejects.toThrow('404');
    expect(urls).toEqual(['/parts/a%20b%231.safetensors?sas=1']);
  });

  it.each([
    '../x.safetensors',
    '/x.safetensors',
    '//host/x.safetensors',
    'https://host/x.safetensors',
    'a/../../x.safetensors',
    '%2e%2e/x.safetensors',
    '%2e%2e/x%zz.safetensors',
    '..%2fx.safetensors',
    '%252e%252e%252fx.safetensors',
    '%2fx.safetensors',
    '%5c%5chost%5cx.safetensors',
    'a%00.safetensors',
    `%${'25'.repeat(20)}2e.safetensors`,
  ])('refuses a file beside it that leads elsewhere: %s', async (name) => {
    const { url } = await serve();
    const { folder } = await open(url);
    const file = (): unknown => folder?.file(name);
    expect(file).toThrow(expect.objectContaining({ code: 'SAFETENSORS_UNSAFE_SHARD_NAME' }));
  });
});

describe('requests', () => {
  const silent = (): Promise<{ url: string; sockets: Set<Socket> }> => serve(() => {});

  it('end with the reason of their signal, also while they wait for the next try', async () => {
    const { url } = await serve((_, response) => {
      response.writeHead(503, { 'Retry-After': '30' }).end();
    });
    const { file } = await open(url);
    const reason = new Error('no more');
    const controller = new AbortController();
    setTimeout(() => controller.abort(reason), 100);
    await expect(file.readStart(10, controller.signal)).rejects.toBe(reason);
    await expect(file.readStart(10, AbortSignal.abort(reason))).rejects.toBe(reason);
  });

  it('end with close(), which refuses more', async () => {
    const { url, sockets } = await silent();
    const source = await open(url);
    const reading = source.file.readStart(10);
    await expect.poll(() => sockets.size).toBe(1);
    source.close();
    const closed = { code: 'SAFETENSORS_FILE_CLOSED', path: url };
    await expect(reading).rejects.toMatchObject(closed);
    await expect(source.file.readInto(new Uint8Array(1), 0)).rejects.toMatchObject(closed);
    await expect(source.folder?.file('x').readStart(1)).rejects.toMatchObject({
      code: 'SAFETENSORS_FILE_CLOSED',
    });
    await expect.poll(() => [...sockets][0]?.destroyed).toBe(true);
  });

  it('without an answer stall, twice', async () => {
    const { url, ranges } = { ...(await serve(() => {})) };
    const { file } = await open(url, { stallMs: 100, firstDelayMs: 1 });
    const error = await file.readStart(10).catch((error: unknown) => error);
    expect(error).toMatchObject({ code: 'SAFETENSORS_REMOTE_STALLED' });
    expect(String(error)).toContain('2 times');
    expect(ranges.length).toBe(2);
  });

  it('stall after 15 s without progress unless an option sets another limit', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    ends.push(() => void vi.useRealTimers());
    const { url, ranges } = await serve(() => {});
    // `expect.poll` would advance the timers.
    const asked = async (count: number): Promise<void> => {
      while (ranges.length < count) await sleep(1);
    };
    const { file } = await open(url, { firstDelayMs: 1 });
    const reading = file.readStart(10).catch((error: unknown) => error);
    await asked(1);
    vi.advanceTimersByTime(14_999);
    await sleep(20);
    expect(ranges.length).toBe(1);
    vi.advanceTimersByTime(1);
    await asked(2);
    vi.advanceTimersByTime(15_000);
    const error = await reading;
    expect(error).toMatchObject({ code: 'SAFETENSORS_REMOTE_STALLED' });
    expect(String(error)).toContain('in 15 s');
  });

  it('of a slow body stall, and go on where it stopped', async () => {
    let isSlow = true;
    const { url, ranges } = await serve(({ headers }, response) => {
      const [, begin, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
      response.writeHead(206, { 'Content-Range': `bytes ${begin}-${last}/${FILE.length}` });
      if (!isSlow) return void response.end(FILE.subarray(Number(begin), Number(last) + 1));
      isSlow = false;
      response.write(FILE.subarray(0, 700));
    });
    const { file } = await open(url, { stallMs: 1000, firstDelayMs: 1 });
    expect((await file.readStart(5000)).bytes).toEqual(FILE.slice(0, 5000));
    expect(ranges).toEqual(['bytes=0-4999', 'bytes=700-4999']);
  });

  it('use a fetch of the caller, without `this`', async () => {
    const { url } = await serve();
    const asked: unknown[] = [];
    function ownFetch(this: unknown, ...request: Parameters<typeof fetch>): Promise<Response> {
      asked.push(this);
      return fetch(...request);
    }
    const { file } = await open(url, { fetch: ownFetch });
    await file.readStart(10);
    expect(asked).toEqual([undefined]);
  });

  it('tell the code of a cause without a message, as when several addresses fail', async () => {
    const cause = Object.assign(new AggregateError([new Error('refused')]), {
      code: 'ECONNREFUSED',
    });
    const ownFetch = async (): Promise<Response> => {
      throw new TypeError('fetch failed', { cause });
    };
    const { file } = await open('https://models.example/x', { fetch: ownFetch, firstDelayMs: 1 });
    await expect(file.readStart(10)).rejects.toThrow('a broken connection (ECONNREFUSED)');
  });

  it.each([
    ['a port that fetch never asks', 'http://127.0.0.1:1/x', 'bad port'],
    ['another one', 'https://models.example:6000/x', 'bad port'],
  ])('are sent once to %s', async (_, url, message) => {
    let count = 0;
    const counting: typeof fetch = async (...request) => {
      count++;
      return await fetch(...request);
    };
    const { file } = await open(url, { fetch: counting });
    await expect(file.readStart(10)).rejects.toMatchObject({
      code: 'SAFETENSORS_REMOTE_UNAVAILABLE',
      message: expect.stringContaining(`a broken connection (${message})`),
    });
    expect(count).toBe(1);
  });

  it('end with an error whose causes are a circle', async () => {
    const error: Error = new Error('outer', { cause: new Error('inner') });
    (error.cause as Error).cause = error;
    const ownFetch = async (): Promise<Response> => {
      throw error;
    };
    const { file } = await open('https://models.example/x', { fetch: ownFetch, firstDelayMs: 1 });
    await expect(file.readStart(10)).rejects.toThrow(/a broken connection \((?:outer|inner)\)/);
  });

  it('hide secrets in errors of such a fetch', async () => {
    const ownFetch = (url: unknown, init: RequestInit = {}): Promise<Response> => {
      const headers = new Headers(init.headers);
      throw new Error(`failed: ${url} with ${headers.get('authorization')}`);
    };
    const { file } = await open('https://models.example/m.safetensors?signature=abcd', {
      fetch: ownFetch as typeof fetch,
      token: 'hf_token',
      firstDelayMs: 1,
    });
    const error = await file.readStart(10).catch((error: unknown) => error);
    expect(error).toMatchObject({ code: 'SAFETENSORS_REMOTE_UNAVAILABLE' });
    expect(String((error as Error).cause)).toContain(
      'failed: https://models.example/m.safetensors',
    );
    expect(`${error}${(error as Error).cause}`).not.toMatch(/abcd|hf_token/);
  });

  it('of a fetch that does not know signals end all the same, and its late answer is cancelled', async () => {
    let isCancelled = false;
    const body = new ReadableStream({
      cancel: () => {
        isCancelled = true;
      },
    });
    const ownFetch = async (): Promise<Response> => {
      await sleep(100);
      return new Response(body, { status: 206 });
    };
    const { file } = await open('https://models.example/m.safetensors', {
      fetch: ownFetch as typeof fetch,
    });
    await expect(file.readStart(10, AbortSignal.timeout(20))).rejects.toThrow('timeout');
    await expect.poll(() => isCancelled).toBe(true);
  });

  it('ask for bytes as they are, and follow redirects by hand', async () => {
    const asked: RequestInit[] = [];
    const { url } = await serve();
    const ownFetch: typeof fetch = (input, init = {}) => {
      asked.push(init);
      return fetch(input, init);
    };
    const { file } = await open(url, { fetch: ownFetch });
    await file.readStart(10);
    expect(new Headers(asked[0]?.headers).get('accept-encoding')).toBe('identity');
    expect(asked[0]?.redirect).toBe('manual');
  });

  it('do not follow redirects from https: to http:', async () => {
    const asked: string[] = [];
    const ownFetch: typeof fetch = async (input) => {
      asked.push(String(input));
      return new Response('', { status: 302, headers: { Location: 'http://models.example/x' } });
    };
    const { file } = await open('https://models.example/m.safetensors', { fetch: ownFetch });
    await expect(file.readStart(10)).rejects.toMatchObject({ code: 'SAFETENSORS_UNSAFE_URL' });
    expect(asked.length).toBe(1);
  });

  it('cancel a body that is not used, also one of a fetch that does not know signals', async () => {
    const events: string[] = [];
    const body = new ReadableStream(
      { pull: () => void events.push('read'), cancel: () => void events.push('cancelled') },
      { highWaterMark: 0 },
    );
    const headers = { 'Content-Length': '100000' };
    const ownFetch: typeof fetch = async () => new Response(body, { status: 200, headers });
    const { file } = await open('https://models.example/m.safetensors', { fetch: ownFetch });
    await expect(file.readStart(10)).rejects.toMatchObject({
      code: 'SAFETENSORS_RANGES_UNSUPPORTED',
    });
    expect(events).toEqual(['cancelled']);
  });

  it('take no part for the whole file: 200 with the Content-Range of a part', async () => {
    const headers = { 'Content-Length': '512', 'Content-Range': 'bytes 0-511/12136' };
    const ownFetch: typeof fetch = async () => new Response(new Uint8Array(512), { headers });
    const { file } = await open('https://models.example/m.safetensors', { fetch: ownFetch });
    await expect(file.readStart(512)).rejects.toMatchObject({
      code: 'SAFETENSORS_BAD_RESPONSE',
      message: expect.stringContaining('200 with Content-Range: bytes 0-511/12136'),
    });
    const whole = { 'Content-Length': '512', 'Content-Range': 'bytes 0-511/512' };
    const answer: typeof fetch = async () => new Response(new Uint8Array(512), { headers: whole });
    const { file: all } = await open('https://models.example/m.safetensors', { fetch: answer });
    expect((await all.readStart(512)).bytes).toHaveLength(512);
  });

  it('to a host that does not exist fail at once', async () => {
    const { file } = await open('http://no-such-host.invalid/m.safetensors');
    const error = await file.readStart(10).catch((error: unknown) => error);
    expect(error).toMatchObject({ code: 'SAFETENSORS_REMOTE_UNAVAILABLE' });
    expect(String(error)).not.toContain('times');
    expect(String(error)).not.toContain('CORS');
  });

  it('of a page that fail may be refused by CORS', async () => {
    vi.stubGlobal('location', new URL('https://page.example'));
    const failed = async (): Promise<never> => Promise.reject(new TypeError('Failed to fetch'));
    const options = { fetch: failed, firstDelayMs: 1 };
    const messageOf = async (url: string): Promise<string> =>
      String(await (await open(url, options)).file.readStart(10).catch((error: unknown) => error));
    expect(await messageOf('https://models.example/m.safetensors')).toContain('5 times; a page');
    expect(await messageOf('https://page.example/m.safetensors')).not.toContain('CORS');
    vi.unstubAllGlobals();
  });
});
