/** Answers and failures whose first message would name the wrong cause, such as proxies and login pages. */
import { readFileSync, writeFileSync } from 'node:fs';
import { createServer, type RequestListener, type Server } from 'node:http';
import { createServer as createTlsServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { hubSettings } from '../../src/file/cache/environment.js';
import { DEFAULT_HUB_SETTINGS, type HubSettings } from '../../src/file/hub/settings.js';
import { connectionAdvice } from '../../src/remote/connection-advice.js';
import { runDownload } from '../../src/remote/download/run-download.js';
import { RemoteShards } from '../../src/remote/remote-shards.js';
import { type ResolveOptions, resolveSource } from '../../src/remote/source.js';
import { fileBytes, temporaryPath } from '../support/make-file.js';

const SMALL = fileBytes([{ name: 't', dtype: 'U8', shape: [9] }]);
const LARGE = fileBytes([{ name: 't', dtype: 'U8', shape: [300_000] }]);
const PAGE = '\n<!doctype html><title>Log in</title>';
const LONG_PAGE = PAGE.padEnd(300_000);

const asked = new Map<string, number>();

const PAGES: Readonly<Record<string, string | Uint8Array>> = {
  'login.safetensors': PAGE,
  'login-long.safetensors': LONG_PAGE,
  'login.bin': PAGE,
  'page.html': PAGE,
  // A script that sends no Content-Type.
  get: SMALL,
};

const answer: RequestListener = (request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
  const name = pathname.slice(1);
  asked.set(name, (asked.get(name) ?? 0) + 1);
  const status = searchParams.get('status');
  const retryAfter = searchParams.get('retry-after');
  if (status !== null) {
    response.writeHead(Number(status), retryAfter === null ? {} : { 'Retry-After': retryAfter });
    response.end();
  } else if (name === 'moved.safetensors') {
    const { port } = request.socket.address() as AddressInfo;
    response.writeHead(302, { Location: `http://localhost:${port}/login-long.safetensors` }).end();
  } else if (name === 'ranged.safetensors') {
    const [, first = '0', last = '0'] =
      /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    const body = Buffer.from(LONG_PAGE.trimStart()).subarray(Number(first), Number(last) + 1);
    response.writeHead(206, {
      'Content-Type': 'text/html',
      'Content-Range': `bytes ${first}-${last}/${LONG_PAGE.trimStart().length}`,
    });
    response.end(body);
  } else if (name.startsWith('api/')) {
    response.writeHead(200, { 'Content-Type': 'text/html' }).end(PAGE);
  } else {
    const body = Buffer.from(PAGES[name] ?? LARGE);
    const type = Object.hasOwn(PAGES, name) ? 'text/html; charset=utf-8' : 'application/binary';
    response.writeHead(200, { 'Content-Type': type, 'Content-Length': body.length }).end(body);
  }
};

let server: Server;
let origin = '';
beforeAll(async () => {
  server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  origin = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(() => {
  server.closeAllConnections();
  server.close();
});

async function open(
  source: string,
  options: Partial<ResolveOptions> = {},
  settings: HubSettings = DEFAULT_HUB_SETTINGS,
): Promise<RemoteShards> {
  const { signal } = new AbortController();
  const all = { startByteLength: 100_000, firstDelayMs: 1, ...options };
  return await RemoteShards.open(await resolveSource(source, all, settings, signal), {}, signal);
}

function copy(source: string, target: string, settings = DEFAULT_HUB_SETTINGS): Promise<unknown> {
  return runDownload(source, target, { durable: false, firstDelayMs: 1 }, settings);
}

/** Message, code and format of the error of a call. */
async function failureOf(
  call: Promise<unknown>,
): Promise<{ code: string; message: string; foundFormat?: string }> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  const { code, message, foundFormat } = Object(error);
  return { code, message, foundFormat };
}

describe('a login page with status 200', () => {
  const page = {
    code: 'SAFETENSORS_BAD_RESPONSE',
    message: expect.stringContaining('a web page'),
    foundFormat: 'html',
  };

  it.each(['login-long.safetensors', 'moved.safetensors'])('is no file: %s', async (name) => {
    expect(await failureOf(open(`${origin}/${name}`))).toEqual(page);
    expect(await failureOf(copy(`${origin}/${name}`, temporaryPath('a')))).toEqual(page);
  });

  it.each(['login.safetensors', 'login.bin', 'ranged.safetensors', 'login.safetensors?x=1'])(
    'is not copied in place of a file: %s',
    async (name) => {
      const path = temporaryPath('model.safetensors');
      writeFileSync(path, 'old');
      expect(await failureOf(copy(`${origin}/${name}`, path))).toEqual(page);
      expect(readFileSync(path, 'utf8')).toBe('old');
    },
  );

  it('is what it is for who asks for a header, when it is short', async () => {
    const { message, foundFormat } = await failureOf(open(`${origin}/login.safetensors`));
    expect(message).toContain('HTML');
    expect(foundFormat).toBe('html');
  });

  it('names the host that it is of, and says what to do', async () => {
    const { message } = await failureOf(open(`${origin}/moved.safetensors`));
    expect(message).toMatch(
      /a web page of localhost:\d+, such as a login .* pass a token or headers/,
    );
    const options = { token: 'hf_token' };
    const other = await failureOf(open(`${origin}/login-long.safetensors`, options));
    expect(other.message).toContain('the token may not be the one');
  });

  it('is not a list of the Hub', async () => {
    const settings = { ...DEFAULT_HUB_SETTINGS, endpoint: origin };
    const target = temporaryPath('target');
    expect(await failureOf(copy('hf://org/name', target, settings))).toEqual(page);
  });

  it('is a file where a page was asked for, and for what only calls itself one', async () => {
    const folder = temporaryPath('a');
    await copy(`${origin}/page.html`, folder);
    expect(readFileSync(join(folder, 'page.html'), 'utf8')).toBe(PAGE);
    await copy(`${origin}/get`, folder);
    expect(readFileSync(join(folder, 'get')).equals(Buffer.from(SMALL))).toBe(true);
    expect((await open(`${origin}/get`)).names).toEqual(['get']);
  });

  it('is told from a server without ranges', async () => {
    const { code } = await failureOf(open(`${origin}/large.safetensors`));
    expect(code).toBe('SAFETENSORS_RANGES_UNSUPPORTED');
  });
});

describe('a status', () => {
  it('429 is the rate limit: with Retry-After and a token, or without', async () => {
    const limited = (query: string, token?: string): Promise<{ code: string; message: string }> =>
      failureOf(open(`${origin}/a.safetensors?status=429${query}`, { token }));
    const none = await limited('');
    expect(none.code).toBe('SAFETENSORS_REMOTE_UNAVAILABLE');
    expect(none.message).toMatch(
      /found status 429, the rate limit of the server, 5 times; the wait is unknown .*Retry-After.* or pass a token/,
    );
    const long = await limited('&retry-after=3600', 'hf_token');
    expect(long.message).toMatch(/rate limit.*; the server asks to wait 3600 s; .*Retry-After/);
    expect(long.message).not.toContain('pass a token');
  });

  it('407 is a proxy that wants to know who asks, at once', async () => {
    asked.clear();
    const error = await failureOf(open(`${origin}/b.safetensors?status=407`));
    expect(error.code).toBe('SAFETENSORS_REMOTE_UNAVAILABLE');
    expect(error.message).toContain('put user:password@ before its host');
    expect(asked.get('b.safetensors')).toBe(1);
    await expect(open(`${origin}/b.safetensors?status=407`)).rejects.toMatchObject({ status: 407 });
    // Of a `fetch` that shows it.
    const fetch = async (): Promise<Response> => new Response(null, { status: 407 });
    const shown = await failureOf(open(`${origin}/b.safetensors`, { fetch }));
    expect(shown.message).toContain('put user:password@ before its host');
  });

  it('511 is the network, at once', async () => {
    asked.clear();
    const error = await failureOf(open(`${origin}/c.safetensors?status=511`));
    expect(error.code).toBe('SAFETENSORS_REMOTE_UNAVAILABLE');
    expect(error.message).toContain('the network on the way wants a login');
    expect(asked.get('c.safetensors')).toBe(1);
  });
});

it('a certificate that nobody has signed: how to name its authority', async () => {
  const fixture = (name: string): Buffer =>
    readFileSync(fileURLToPath(new URL(`../fixtures/self-signed/${name}`, import.meta.url)));
  const tls = createTlsServer({ key: fixture('key.pem'), cert: fixture('cert.pem') }, answer);
  await new Promise<void>((resolve) => tls.listen(0, '127.0.0.1', resolve));
  try {
    let connections = 0;
    tls.on('connection', () => connections++);
    const { port } = tls.address() as AddressInfo;
    const error = await failureOf(open(`https://127.0.0.1:${port}/a.safetensors`));
    expect(error.code).toBe('SAFETENSORS_REMOTE_UNAVAILABLE');
    expect(error.message).toMatch(/self-signed certificate.*NODE_EXTRA_CA_CERTS/);
    expect(connections).toBe(1);
  } finally {
    tls.close();
  }
});

describe('a proxy', () => {
  /** Goes to this machine, under a name that is not known for that. */
  const url = 'http://0.0.0.0:1/a.safetensors';

  it('of the environment, which fetch does not use: how to have it used', async () => {
    const settings = { ...DEFAULT_HUB_SETTINGS, proxyFor: () => 'HTTP_PROXY' };
    const { message } = await failureOf(open(url, {}, settings));
    expect(message).toMatch(/HTTP_PROXY names a proxy, which .* NODE_USE_ENV_PROXY=1/);
    const fetch: typeof globalThis.fetch = (...request) => globalThis.fetch(...request);
    expect((await failureOf(open(url, { fetch }, settings))).message).not.toContain('proxy');
    expect((await failureOf(open(url))).message).not.toContain('proxy');
    const all = connectionAdvice(new URL(url), { message: 'no' }, 'all_proxy');
    expect(all).toContain('HTTPS_PROXY in place of ALL_PROXY');
    const here = connectionAdvice(new URL('http://127.0.0.1:1/'), { message: 'no' }, 'HTTP_PROXY');
    expect(here).toBe('');
  });

  it('that fetch does use is not the cause', async () => {
    await globalThis.fetch('http://127.0.0.1:1/').catch(() => undefined);
    const dispatchers = globalThis as unknown as Record<symbol, unknown>;
    const keys = [1, 2].map((version) => Symbol.for(`undici.globalDispatcher.${version}`));
    const before = keys.map((key) => dispatchers[key]);
    class EnvHttpProxyAgent {}
    try {
      for (const [i, key] of keys.entries()) {
        if (before[i] !== undefined) dispatchers[key] = new EnvHttpProxyAgent();
      }
      const cause = { message: 'no', code: 'ENOTFOUND' };
      expect(connectionAdvice(new URL(url), cause, 'HTTP_PROXY')).toBe('');
    } finally {
      for (const [i, key] of keys.entries()) if (before[i]) dispatchers[key] = before[i];
    }
  });

  it('that wants to know who asks, of a tunnel', () => {
    const cause = {
      message: 'Proxy response (407) !== 200 when HTTP Tunneling',
      code: 'UND_ERR_ABORTED',
    };
    expect(connectionAdvice(new URL(url), cause, 'HTTP_PROXY')).toContain('user:password');
  });

  it.each([
    [{ HTTPS_PROXY: 'http://p' }, 'https://a.example/', 'HTTPS_PROXY'],
    [{ https_proxy: 'http://p' }, 'https://a.example/', 'https_proxy'],
    [{ HTTPS_PROXY: 'http://p' }, 'http://a.example/', undefined],
    [{ HTTP_PROXY: 'http://p' }, 'http://a.example/', 'HTTP_PROXY'],
    [{ HTTP_PROXY: ' ' }, 'http://a.example/', undefined],
    [{ ALL_PROXY: 'http://p' }, 'http://a.example/', 'ALL_PROXY'],
    [{ HTTPS_PROXY: 'http://p', NO_PROXY: 'example' }, 'https://a.example/', undefined],
    [{ HTTPS_PROXY: 'http://p', NO_PROXY: 'b, .a.example:443' }, 'https://a.example/', undefined],
    [{ HTTPS_PROXY: 'http://p', no_proxy: '*' }, 'https://a.example/', undefined],
    [{ HTTPS_PROXY: 'http://p', NO_PROXY: 'ample' }, 'https://a.example/', 'HTTPS_PROXY'],
    [{}, 'https://a.example/', undefined],
  ])('is named by %o for %s', (environment, at, name) => {
    expect(hubSettings(environment).proxyFor?.(new URL(at))).toBe(name);
  });
});
