/** A server that repeats the token wherever it can: no error shows it, or a longer part of it. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { inspect } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Credentials } from '../../src/remote/credentials.js';
import { redactError } from '../../src/remote/redacted-errors.js';
import { download, FileClosedError, openRemote, parseSafetensorsMetadata } from '../support/api.js';
import { temporaryPath } from '../support/make-file.js';

const TOKEN = 'tok_en"with+signs/and=more_0123456789';
/** A part that is long enough to be of use. */
const PART = /tok_en|with\+signs|with%2B|more_01|123456/i;

function headerOf(json: string): Uint8Array {
  const text = Buffer.from(json);
  const bytes = Buffer.alloc(8 + text.length);
  bytes.writeBigUInt64LE(BigInt(text.length));
  text.copy(bytes, 8);
  return bytes;
}

function oneTensor(name: string, fields: object = {}): Uint8Array {
  const tensor = { dtype: 'U8', shape: [0], data_offsets: [0, 0], ...fields };
  return headerOf(JSON.stringify({ [name]: tensor }));
}

const indexOf = (shard: string, tensor = 't'): Uint8Array =>
  Buffer.from(JSON.stringify({ weight_map: { [tensor]: shard } }));

const LONG = `${'x'.repeat(100)}${TOKEN}`;

/** Files with the token in them, by name. */
const FILES: Readonly<Record<string, Uint8Array>> = {
  'dtype.safetensors': oneTensor('t', { dtype: TOKEN }),
  'name.safetensors': oneTensor(TOKEN, { shape: [1] }),
  'cut.safetensors': oneTensor(LONG, { shape: [1] }),
  'twice.safetensors': headerOf(`{${`${JSON.stringify(TOKEN)}:1,`.repeat(2)}"a":1}`),
  'field.safetensors': oneTensor('t', { [TOKEN]: 1, shape: TOKEN }),
  'good.safetensors': oneTensor(TOKEN),
  'a.safetensors.index.json': indexOf(`../${TOKEN}.safetensors`),
  'b.safetensors.index.json': indexOf(`${TOKEN}.other`),
  'c.safetensors.index.json': indexOf(`${TOKEN}.safetensors`),
  'd.safetensors.index.json': indexOf('good.safetensors', LONG),
  'e.safetensors.index.json': Buffer.from(`{"weight_map":{"t":1,"${'y'.repeat(90)}":2}}`),
  'f.safetensors.index.json': indexOf(`${'z'.repeat(300)}${TOKEN}.safetensors`),
};

function answer(request: IncomingMessage, response: ServerResponse): void {
  const { pathname } = new URL(request.url ?? '/', 'http://localhost');
  const name = pathname.slice(1);
  const bytes = Object.hasOwn(FILES, name) ? FILES[name] : undefined;
  const [, first = '0', last = '0'] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
  if (name === 'etag.safetensors') {
    response.writeHead(206, {
      ETag: `"${TOKEN}${Math.random()}"`,
      'Content-Range': `bytes ${first}-${last}/1000000`,
    });
    // A header of 500 000 bytes, which needs a second request.
    const body = Buffer.alloc(Number(last) + 1);
    if (body.length > 8) body.writeUInt32LE(500_000);
    response.end(body.subarray(Number(first)));
  } else if (name === 'range.safetensors') {
    response.writeHead(206, { 'Content-Range': `bytes ${TOKEN}` }).end();
  } else if (name === 'redirect.safetensors') {
    response.writeHead(302, { Location: `/${TOKEN}?${TOKEN}` }).end();
  } else if (name === 'refused.safetensors') {
    response.writeHead(403, { 'X-Error-Message': LONG.repeat(3) }).end();
  } else if (bytes === undefined) {
    response.writeHead(404).end();
  } else {
    const end = Math.min(Number(last) + 1, bytes.length);
    response.writeHead(206, { 'Content-Range': `bytes ${first}-${end - 1}/${bytes.length}` });
    response.end(bytes.subarray(Number(first), end));
  }
}

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

/** All that an error shows, to people and to programs. */
function shownBy(error: unknown): string {
  const { stack, errors } = error as { stack?: string; errors?: unknown };
  return [
    String(error),
    stack,
    inspect(error, { depth: 9, showHidden: true }),
    inspect(errors),
  ].join('\n');
}

async function expectNoSecret(call: Promise<unknown>): Promise<void> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(Error);
  expect(shownBy(error)).not.toMatch(PART);
  expect(error).toHaveProperty('code', expect.stringMatching(/^SAFETENSORS_/));
}

const names = [...Object.keys(FILES), 'etag', 'range', 'redirect', 'refused'].map((name) =>
  name.includes('.') ? name : `${name}.safetensors`,
);

describe('an error about', () => {
  for (const name of names.filter((name) => !/^(?:good|[cd])\./.test(name))) {
    it(name, async () => {
      const options = { token: TOKEN };
      const source = `${origin}/${name}`;
      const use = async (): Promise<unknown> => {
        const checkpoint = await openRemote(source, options);
        return await checkpoint.readTensors();
      };
      await expectNoSecret(use());
      await expectNoSecret(parseSafetensorsMetadata({ source, accessToken: TOKEN }));
      const target = temporaryPath('target');
      const chosen = { ...options, names: ['t', TOKEN, `${TOKEN}x`], durable: false };
      await expectNoSecret(download(source, target, chosen));
    });
  }

  it('a shard that is not there, by its URL', async () => {
    const source = `${origin}/c.safetensors.index.json`;
    const checkpoint = await openRemote(source, { token: TOKEN });
    await expectNoSecret(checkpoint.info('t'));
    await expectNoSecret(download(source, temporaryPath('target'), { token: TOKEN }));
  });

  it('a tensor that its shard does not have, and one that nobody has', async () => {
    const source = `${origin}/d.safetensors.index.json`;
    const checkpoint = await openRemote(source, { token: TOKEN });
    await expectNoSecret(checkpoint.info(LONG));
    await expectNoSecret(checkpoint.getTensor(`${LONG}1`));
    const single = await openRemote(`${origin}/good.safetensors`, { token: TOKEN });
    await expectNoSecret(single.getTensor(`${TOKEN}1`));
    await expectNoSecret(single.getSlice(TOKEN, 5));
  });
});

describe('redactError', () => {
  const credentials = new Credentials(new URL('https://a.example/'), { token: 'hf_secret' });

  it('leaves what callers throw, and keeps the error itself', () => {
    const mine = new Error('hf_secret');
    expect([redactError(mine, credentials), mine.message]).toEqual([mine, 'hf_secret']);
    expect(redactError('hf_secret', credentials)).toBe('hf_secret');
    const closed = new FileClosedError({ path: 'https://a.example/hf_secret', cause: mine });
    expect(redactError(closed, credentials)).toBe(closed);
    expect(closed.message).toBe('https://a.example/…: the file is closed');
    expect([closed.path, mine.message]).toEqual(['https://a.example/…', '…']);
    expect(closed.stack).toMatch(/…: the file is closed\n {4}at /);
  });

  it('ends with causes in a circle, and takes errors of the system', () => {
    const system = Object.assign(new Error('ENOENT: open hf_secret'), {
      syscall: 'open',
      path: '/tmp/hf_secret',
      code: 'ENOENT',
    });
    system.cause = system;
    redactError(system, credentials);
    expect([system.message, system.path, system.code]).toEqual([
      'ENOENT: open …',
      '/tmp/…',
      'ENOENT',
    ]);
  });
});
