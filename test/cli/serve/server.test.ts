/** Who gets what of the server: its own page everything that is named, everyone else nothing. */
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, createServer } from 'node:http';
import { networkInterfaces, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { PageServer } from '../../../src/cli/serve/server.js';
import { servedSources } from '../../../src/cli/serve/sources.js';
import { TWO_SHARDS, writeBelow, writeCheckpoint } from '../../support/make-checkpoint.js';
import { fileBytes } from '../../support/make-file.js';
import { type Asked, ask, askRaw, headOf, PAGE, partsOf } from './ask.js';

const SHARD = 'model-00001-of-00002.safetensors';
/** A name with what an address gives a meaning, and a colour for terminals. */
const HOSTILE = 'a #?&%2f%2e "\'<b>é\u001b[31m.safetensors';

let server: PageServer;
let folder: string;
let shard: Buffer;

beforeAll(async () => {
  folder = writeCheckpoint(
    TWO_SHARDS,
    join(mkdtempSync(join(tmpdir(), 'safetensors-mmap-')), 'model'),
  );
  writeBelow(folder, 'config.json', '{"model_type": "x"}');
  writeBelow(folder, 'secret.json', '{}');
  writeBelow(dirname(folder), 'secret.txt', 'secret');
  const other = join(dirname(folder), 'other', HOSTILE);
  mkdirSync(dirname(other));
  writeFileSync(other, fileBytes([{ name: 'a', dtype: 'U8', shape: [1] }]));
  shard = readFileSync(join(folder, SHARD));
  const { signal } = new AbortController();
  const sources = [
    ...(await servedSources(folder, {}, signal)).sources,
    ...(await servedSources(other, {}, signal)).sources,
  ];
  server = await PageServer.start({ page: PAGE, sources }, 0);
});

afterAll(async () => {
  await server.close();
  rmSync(dirname(folder), { recursive: true });
});

describe('the page gets', () => {
  it('itself, under its policy', async () => {
    const { token } = partsOf(server);
    const headers = { 'x-safetensors-token': undefined };
    const page = await ask(server, `/?token=${token}`, { headers });
    expect(page.status).toBe(200);
    expect(page.body).toEqual(PAGE.bytes);
    expect(page.headers).toMatchObject({
      'content-type': 'text/html; charset=utf-8',
      'content-security-policy': PAGE.policy,
    });
  });

  it('the list of sources', async () => {
    const { status, headers, body } = await ask(server, '/sources.json');
    expect([status, headers['content-type']]).toEqual([200, 'application/json']);
    const { version, sources } = JSON.parse(body.toString());
    expect(version).toBe(1);
    expect(sources[0]).toEqual({
      name: 'model',
      files: [
        'model.safetensors.index.json',
        SHARD,
        'model-00002-of-00002.safetensors',
        'config.json',
      ].map((name) => {
        const size = readFileSync(join(folder, name)).length;
        return { name, size, path: `source/0/${name}` };
      }),
    });
    expect(sources[1]).toMatchObject({ name: HOSTILE, files: [{ name: HOSTILE }] });
    expect(sources.length).toBe(2);
  });

  it('files by the paths of the list, as browsers resolve these', async () => {
    const { body } = await ask(server, '/sources.json');
    const [, { files }] = JSON.parse(body.toString()).sources;
    const { pathname, search, hash } = new URL(files[0].path, server.address);
    expect([search, hash]).toEqual(['', '']);
    expect((await ask(server, pathname)).body.length).toBe(files[0].size);
  });

  it('whole files and ranges', async () => {
    const path = `/source/0/${SHARD}`;
    const whole = await ask(server, path);
    expect([whole.status, whole.body]).toEqual([200, shard]);
    expect(whole.headers).toMatchObject({
      'accept-ranges': 'bytes',
      'content-length': String(shard.length),
      'content-type': 'application/octet-stream',
      etag: expect.stringMatching(/^"[\da-z]+-[\da-z]+-[\da-z]+"$/),
    });
    const part = await ask(server, path, { headers: { Range: 'bytes=5-9' } });
    expect([part.status, part.body]).toEqual([206, shard.subarray(5, 10)]);
    expect(part.headers).toMatchObject({
      'content-range': `bytes 5-9/${shard.length}`,
      'content-length': '5',
      etag: whole.headers.etag,
    });
    const end = await ask(server, path, { headers: { Range: 'bytes=-3' } });
    expect([end.status, end.body]).toEqual([206, shard.subarray(-3)]);
    for (const range of ['bytes=100000-', 'bytes=0-1,3-4', ['bytes=0-1', 'bytes=3-4'], 'bytes=x']) {
      const { status, headers, body } = await ask(server, path, { headers: { Range: range } });
      expect([status, body.length]).toEqual([416, 0]);
      expect(headers['content-range']).toBe(`bytes */${shard.length}`);
    }
  });

  it('heads without bodies', async () => {
    for (const [path, length] of [
      [`/source/0/${SHARD}`, shard.length],
      [`/?token=${partsOf(server).token}`, PAGE.bytes.length],
    ] as const) {
      const { status, headers, body } = await ask(server, path, { method: 'HEAD' });
      expect([status, headers['content-length'], body.length]).toEqual([200, String(length), 0]);
    }
    const lost = await ask(server, '/lost', { method: 'HEAD' });
    expect([lost.status, lost.body.length]).toEqual([404, 0]);
  });

  it('answers by the name localhost, and with its own origin', async () => {
    const { port } = partsOf(server);
    for (const host of [`127.0.0.1:${port}`, `localhost:${port}`, `LocalHost:${port}`]) {
      const headers = { Host: host, Origin: `http://${host.toLowerCase()}` };
      expect((await ask(server, '/sources.json', { headers })).status).toBe(200);
    }
  });

  it('answers over one connection', async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const ports = new Set<number | undefined>();
    for (const range of ['bytes=0-0', 'bytes=1-', 'bytes=100000-', 'rows=1-1']) {
      const asked = { headers: { Range: range }, agent };
      ports.add((await ask(server, `/source/0/${SHARD}`, asked)).localPort);
    }
    expect(ports.size).toBe(1);
    agent.destroy();
  });
});

it('every answer, also a refusal, is kept from caches, frames and other origins', async () => {
  for (const [path, asked] of [
    [`/?token=${partsOf(server).token}`, {}],
    ['/sources.json', {}],
    [`/source/0/${SHARD}`, {}],
    [`/source/0/${SHARD}`, { headers: { Range: 'bytes=100000-' } }],
    [`/source/0/${SHARD}`, { headers: { 'If-Match': '"x"' } }],
    ['/lost', {}],
    ['/sources.json', { method: 'POST' }],
    ['/sources.json', { headers: { Origin: 'https://evil.example' } }],
    ['/sources.json', { headers: { 'x-safetensors-token': 'x' } }],
  ] as const) {
    const { headers } = await ask(server, path, asked as Asked);
    expect(headers).toMatchObject({
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      'referrer-policy': 'no-referrer',
      'cross-origin-opener-policy': 'same-origin',
      'cross-origin-resource-policy': 'same-origin',
      'content-security-policy': expect.stringContaining("default-src 'none'"),
    });
    expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
  }
});

const EVERY_PATH = ['/sources.json', `/source/0/${SHARD}`, '/', '/lost', '/source/0/lost'];

/** The statuses of all paths, each once. */
async function statuses(asked: Asked, paths: readonly string[] = EVERY_PATH): Promise<number[]> {
  const answers = await Promise.all(paths.map((path) => ask(server, path, asked)));
  for (const { body } of answers) expect(body.length).toBeLessThan(100);
  return [...new Set(answers.map(({ status }) => status))];
}

describe('refused is a request', () => {
  it.each([
    'evil.example',
    'evil.example:PORT',
    '127.0.0.1',
    '127.0.0.1:1',
    '127.0.0.1:PORT.evil.example',
    '127.0.0.1.evil.example:PORT',
    'localhost.evil.example:PORT',
    'localhost',
    '0.0.0.0:PORT',
    '[::1]:PORT',
    '127.1:PORT',
    '2130706433:PORT',
    '127.0.0.1:0PORT',
    'user@127.0.0.1:PORT',
  ])('to the host %j, even with the token', async (host) => {
    const { port, token } = partsOf(server);
    const headers = { Host: host.replace('PORT', String(port)) };
    expect(await statuses({ headers }, [...EVERY_PATH, `/?token=${token}`])).toEqual([403]);
  });

  it('without a host, or with two', async () => {
    const { port } = partsOf(server);
    const head = headOf(server, '/sources.json', ['Connection: close']);
    const host = `Host: 127.0.0.1:${port}\r\n`;
    expect(await askRaw(server, head)).toMatch(/^HTTP\/1\.1 200 /);
    expect(await askRaw(server, head.replace(host, ''))).toMatch(/^HTTP\/1\.1 400 /);
    expect(await askRaw(server, head.replace(host, '').replace('1.1', '1.0'))).toMatch(
      /^HTTP\/1\.1 403 /,
    );
    expect(await askRaw(server, head.replace(host, 'Host: \r\n'))).toMatch(/^HTTP\/1\.1 403 /);
    const evil = 'Host: evil.example\r\n';
    expect(await askRaw(server, head.replace(host, host + evil))).toMatch(/^HTTP\/1\.1 403 /);
    expect(await askRaw(server, head.replace(host, evil + host))).toMatch(/^HTTP\/1\.1 403 /);
    expect(await askRaw(server, head.replace(host, host + host))).toMatch(/^HTTP\/1\.1 403 /);
  });

  it.each([
    'https://evil.example',
    'http://evil.example:PORT',
    'null',
    'http://127.0.0.1',
    'http://127.0.0.1:1',
    'https://127.0.0.1:PORT',
    'http://localhost:PORT',
    'http://127.0.0.1:PORT.evil.example',
    'http://127.0.0.1:PORT, https://evil.example',
    'file://',
    '',
  ])('of the origin %j, even with the token', async (origin) => {
    const { port, token } = partsOf(server);
    const headers = { Origin: origin.replace('PORT', String(port)) };
    expect(await statuses({ headers }, [...EVERY_PATH, `/?token=${token}`])).toEqual([403]);
  });

  it('without the token, or with another', async () => {
    const { token } = partsOf(server);
    const flipped = (token.startsWith('A') ? 'B' : 'A') + token.slice(1);
    const wrong = [
      undefined,
      '',
      'x',
      flipped,
      `${token}x`,
      token.slice(1),
      ` ${token}x`,
      [token, token],
    ];
    for (const given of wrong) {
      expect(await statuses({ headers: { 'x-safetensors-token': given } })).toEqual([403]);
    }
  });

  it('of the page with a token that is not in its address', async () => {
    const { token } = partsOf(server);
    const paths = ['/', '/?', '/?token=', '/?token=x', `/?token=${token}x`, `/?token=${token}&a=b`];
    const others = [`/?a=b&token=${token}`, `//?token=${token}`, `/index.html?token=${token}`];
    const headers = { 'x-safetensors-token': undefined };
    expect(await statuses({ headers }, [...paths, ...others])).toEqual([403]);
    // The query is for the page alone.
    const files = [`/sources.json?token=${token}`, `/source/0/${SHARD}?token=${token}`];
    expect(await statuses({ headers }, files)).toEqual([403]);
  });

  it.each(['POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS', 'TRACE', 'PROPFIND'])(
    'by %s',
    async (method) => {
      const { status, headers } = await ask(server, '/sources.json', { method });
      expect([status, headers.allow]).toEqual([405, 'GET, HEAD']);
    },
  );

  it('to connect elsewhere, or to another protocol', async () => {
    const { port } = partsOf(server);
    const host = `Host: 127.0.0.1:${port}\r\n`;
    expect(await askRaw(server, `CONNECT evil.example:80 HTTP/1.1\r\n${host}\r\n`)).toBe('');
    // Not a path: the parser refuses it.
    const bare = headOf(server, 'sources.json', ['Connection: close']);
    expect(await askRaw(server, bare)).toMatch(/^HTTP\/1\.1 400 /);
    expect(await askRaw(server, `BREW / HTTP/1.1\r\n${host}\r\n`)).toMatch(/^HTTP\/1\.1 400 /);
    const upgrade = ['Upgrade: websocket', 'Connection: Upgrade', 'Sec-WebSocket-Version: 13'];
    const answer = await askRaw(server, headOf(server, '/lost', upgrade));
    expect(answer).toMatch(/^HTTP\/1\.1 404 /);
  });

  it('with a body', async () => {
    for (const headers of [{ 'Content-Length': '4' }, { 'Transfer-Encoding': 'chunked' }]) {
      const { status } = await ask(server, '/sources.json', { headers, body: 'body' });
      expect(status).toBe(400);
    }
  });

  it.each([
    ['http://127.0.0.1:PORT/sources.json', 400],
    ['https://evil.example/sources.json', 400],
    ['*', 400],
    ['//127.0.0.1:PORT/sources.json', 404],
    ['/sources.json/', 404],
    ['/sources.json?', 404],
    ['/sources%2ejson', 404],
    ['/SOURCES.JSON', 404],
    ['/source/0/', 404],
    ['/source/0', 404],
    ['/source/', 404],
    ['/source/2/model-00001-of-00002.safetensors', 404],
    ['/source/00/model-00001-of-00002.safetensors', 404],
    ['/source/-1/model-00001-of-00002.safetensors', 404],
    ['/source/__proto__/model-00001-of-00002.safetensors', 404],
    ['/source/0/__proto__', 404],
    ['/source/0/secret.json', 404],
    ['/source/0/../0/config.json', 404],
    ['/source/0/./config.json', 404],
    ['/source/0//config.json', 404],
    ['/source/0/../../secret.txt', 404],
    ['/source/0/..%2fsecret.txt', 404],
    ['/source/0/..%5csecret.txt', 404],
    ['/source/0/%2e%2e/secret.txt', 404],
    ['/source/0/..;/secret.txt', 404],
    ['/source/0%2fconfig.json', 404],
    ['/source/0/%63onfig.json', 404],
    ['/source/0/config.json%00', 404],
    ['/source/0/config.json#', 404],
    ['/../../../etc/passwd', 404],
    ['/etc/passwd', 404],
  ])('for %j, even with the token', async (target, expected) => {
    const { port } = partsOf(server);
    const head = headOf(server, target.replace('PORT', String(port)), ['Connection: close']);
    const answer = await askRaw(server, head);
    expect(answer.slice(0, 13)).toBe(`HTTP/1.1 ${expected} `);
    expect(answer.split('\r\n\r\n')[1]).toMatch(/^(?:\w+\r\n)?[a-z ]+\n/);
  });
});

describe('the address for opening', () => {
  it('leads to the page, once', async () => {
    const opening = server.addressForOpening();
    expect(opening).not.toContain(partsOf(server).token);
    const path = opening.slice(opening.indexOf('/', 7));
    const headers = { 'x-safetensors-token': undefined };
    expect((await ask(server, '/?once=', { headers })).status).toBe(403);
    expect((await ask(server, `${path}x`, { headers })).status).toBe(403);
    const { status, headers: head } = await ask(server, path, { headers });
    expect([status, head.location]).toEqual([303, server.address]);
    expect((await ask(server, path, { headers })).status).toBe(403);
  });

  it('leads nowhere without one', async () => {
    const other = await PageServer.start({ page: PAGE, sources: [] }, 0);
    try {
      for (const path of ['/?once=', '/?once=null']) {
        expect((await ask(other, path)).status).toBe(403);
      }
    } finally {
      await other.close();
    }
  });
});

describe('a server', () => {
  it('has a token of its own, which is long', async () => {
    const other = await PageServer.start({ page: PAGE, sources: [] }, 0);
    const { token } = partsOf(other);
    await other.close();
    expect(token).not.toBe(partsOf(server).token);
    expect(Buffer.from(token, 'base64url').length).toBe(32);
  });

  it('listens on 127.0.0.1 alone', async () => {
    const { port } = partsOf(server);
    const addresses = Object.values(networkInterfaces())
      .flatMap((list) => list ?? [])
      .map(({ address }) => address)
      .filter((address) => address !== '127.0.0.1' && !address.startsWith('fe80'));
    for (const address of [...addresses, '::1']) {
      await expect(
        fetch(`http://${address.includes(':') ? `[${address}]` : address}:${port}/`),
      ).rejects.toThrow();
    }
  });

  it('rejects a port that is taken', async () => {
    const taken = createServer();
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
    const { port } = taken.address() as { port: number };
    await expect(PageServer.start({ page: PAGE, sources: [] }, port)).rejects.toMatchObject({
      code: 'EADDRINUSE',
    });
    await new Promise((resolve) => taken.close(resolve));
  });
});
