/**
 * A server that lies, and the expected result of each lie. Every lie has its own folder on the server, so all of
 * them can run at the same time, in any runtime that has `node:http` and `fetch`.
 */
import assert from 'node:assert/strict';
import { createServer } from 'node:http';
import { inspect } from 'node:util';

/** The bytes of the file that the server has: those next to each other differ. */
export const FILE = Uint8Array.from({ length: 20_000 }, (_, i) => (i * 7 + (i >> 8)) % 251);

/** The same file, later. */
export const NEXT_FILE = FILE.map((byte) => 255 - byte);

const TOKEN = 'hf_notForOthers';
const COMMITS = ['1'.repeat(40), '2'.repeat(40)];

/** The server's answer to one request. */
class Exchange {
  constructor(servers, lie, asked, request, response) {
    this.servers = servers;
    this.lie = lie;
    this.request = request;
    this.response = response;
    /** Requests of this lie so far, this one included. */
    this.count = asked.length;
    this.asked = asked;
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(request.headers.range ?? '') ?? [];
    this.begin = Number(first ?? 0);
    this.end = Math.min(Number(last ?? FILE.length - 1) + 1, FILE.length);
  }

  get isElsewhere() {
    return this.asked.at(-1).isElsewhere;
  }

  /** Answers with the range, as an honest server does, except for the given parts. */
  send({ status = 206, headers = {}, file = FILE, body } = {}) {
    const { begin } = this;
    const end = Math.min(this.end, file.length);
    const bytes = body ?? file.subarray(begin, end);
    const all = {
      'Content-Range': `bytes ${begin}-${end - 1}/${file.length}`,
      'Content-Length': bytes.length,
      ETag: '"first"',
      ...headers,
    };
    const given = Object.entries(all).filter(([, value]) => value !== undefined);
    this.response.writeHead(status, Object.fromEntries(given));
    this.response.end(bytes);
  }

  /** Answers without a range, such as an error. */
  refuse(status, headers = {}, body = 'refused') {
    this.response.writeHead(status, headers).end(body);
  }

  redirect(location, status = 302) {
    this.response.writeHead(status, { Location: location }).end('moved');
  }

  /** The head, and then bytes for ever. */
  sendEndless({ status = 206, headers = {} } = {}) {
    const { begin, end, response, lie } = this;
    const range = { 'Content-Range': `bytes ${begin}-${end - 1}/${FILE.length}`, ETag: '"first"' };
    response.writeHead(status, { ...range, ...headers });
    const piece = new Uint8Array(16_384);
    lie.sent = 0;
    const more = () => {
      while (!response.destroyed && lie.sent < 1e9) {
        lie.sent += piece.length;
        if (!response.write(piece)) return void response.once('drain', more);
      }
    };
    more();
  }

  /** Part of the range, and then a broken connection. */
  breakAfter(byteLength, { file = FILE, headers = {} } = {}) {
    const { begin, end, response } = this;
    response.writeHead(206, {
      'Content-Range': `bytes ${begin}-${end - 1}/${file.length}`,
      'Content-Length': end - begin,
      ETag: '"first"',
      ...headers,
    });
    response.write(file.subarray(begin, begin + byteLength), () => response.destroy());
  }
}

/** Two servers, for redirects from one host to another. */
export class LyingServers {
  #folders = new Map();
  #servers = [];

  static async start() {
    const started = new LyingServers();
    started.origin = await started.#listen(false);
    started.elsewhere = await started.#listen(true);
    return started;
  }

  async #listen(isElsewhere) {
    const server = createServer((request, response) => {
      const [, folder] = /^\/(?:api\/models\/)?(?:lie\/)?(\d+)\//.exec(request.url) ?? [];
      const { lie, asked, hasReceiver } = this.#folders.get(folder);
      // `fetch` asks again for what a receiver does not take: the lie is the same, and counts once.
      if (asked.at(-1)?.isLeftToFetch) asked.pop();
      const entry = { url: request.url, headers: request.headers, isElsewhere };
      asked.push(entry);
      response.on('error', () => {});
      lie.answer(new Exchange(this, lie, asked, request, response));
      const isPartial = [200, 206].includes(response.statusCode);
      const isPlain = response.statusCode === 206 && !response.chunkedEncoding;
      // Node's `fetch` says what it is.
      const isByReceiver = hasReceiver && request.headers['sec-fetch-mode'] === undefined;
      entry.isLeftToFetch = isByReceiver && response.headersSent && isPartial && !isPlain;
    });
    this.#servers.push(server);
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${server.address().port}`;
  }

  /** The folder of a lie on a server, and the file to request. */
  add(lie, hasReceiver) {
    const asked = [];
    const folder = String(this.#folders.size + 1);
    this.#folders.set(folder, { lie, asked, hasReceiver });
    return { folder, asked };
  }

  close() {
    for (const server of this.#servers) {
      server.close();
      server.closeAllConnections?.();
    }
  }
}

/** Reads the start of the file, and then a range in its middle. */
async function readTwice({ file }) {
  const start = await file.readStart(1000);
  assert.deepEqual(start.bytes, FILE.slice(0, 1000));
  assert.equal(start.fileByteLength, FILE.length);
  const target = new Uint8Array(5000);
  await file.readInto(target, 2000);
  assert.deepEqual(target, FILE.slice(2000, 7000));
}

/** Lies about the second request only. */
const second = (lie) => (exchange) => (exchange.count === 1 ? exchange.send() : lie(exchange));

const unsupported = 'SAFETENSORS_RANGES_UNSUPPORTED';
const bad = 'SAFETENSORS_BAD_RESPONSE';
const changed = 'SAFETENSORS_FILE_CHANGED';
const unavailable = 'SAFETENSORS_REMOTE_UNAVAILABLE';
const unsafe = 'SAFETENSORS_UNSAFE_URL';

/** An answer with another head, at the first request and at the second one. It is not tried again. */
function heads(name, code, makeAnswer) {
  const answer = (exchange) => exchange.send(makeAnswer(exchange));
  return [
    { name: `${name}, at first`, answer, code, requests: 1 },
    { name: `${name}, later`, answer: second(answer), code, requests: 2 },
  ];
}

function contentRange(text) {
  return ({ begin, end }) => ({ headers: { 'Content-Range': text(begin, end - 1, FILE.length) } });
}

/** Answers of one version and then of another. */
function versions(name, first, next, code = changed) {
  return {
    name,
    code,
    answer: (exchange) =>
      exchange.send(exchange.count === 1 ? first : { file: NEXT_FILE, ...next }),
  };
}

const RANGES = [
  { name: 'tells the truth', answer: (exchange) => exchange.send() },
  {
    name: 'sends a whole file that is longer than what was asked',
    answer: (exchange) => exchange.send({ status: 200, body: FILE }),
    code: unsupported,
    requests: 1,
  },
  {
    name: 'sends a whole file without an end',
    answer: (exchange) => exchange.sendEndless({ status: 200 }),
    code: unsupported,
    check: ({ lie }) => assert.ok(lie.sent < 20e6, `${lie.sent} bytes`),
  },
  {
    name: 'sends a whole file of a huge length',
    answer: (exchange) =>
      exchange.sendEndless({ status: 200, headers: { 'Content-Length': 2 ** 40 } }),
    code: unsupported,
    check: ({ lie }) => assert.ok(lie.sent < 20e6, `${lie.sent} bytes`),
  },
  {
    name: 'sends a part as a whole file, with a Content-Range that cannot be read',
    answer: (exchange) => exchange.send({ status: 200, headers: { 'Content-Range': '0' } }),
    run: async ({ file }) => {
      await file.readStart(1000);
    },
    code: 'SAFETENSORS_BAD_RESPONSE',
  },
  {
    name: 'sends a whole file that is no longer than what was asked',
    answer: (exchange) => exchange.send({ status: 200, body: FILE }),
    run: async ({ file }) => {
      const { bytes, fileByteLength } = await file.readStart(FILE.length + 5);
      assert.deepEqual(bytes, FILE);
      assert.equal(fileByteLength, FILE.length);
    },
  },
  ...heads('leaves out Content-Range', unsupported, () => ({
    headers: { 'Content-Range': undefined },
  })),
  ...heads('sends several parts', unsupported, () => ({
    headers: {
      'Content-Range': undefined,
      'Content-Type': 'multipart/byteranges; boundary=x',
    },
  })),
  ...heads(
    'sends another range',
    bad,
    contentRange((b, e, n) => `bytes ${b + 1}-${e + 1}/${n}`),
  ),
  ...heads(
    'sends a byte too many',
    bad,
    contentRange((b, e, n) => `bytes ${b}-${e + 1}/${n}`),
  ),
  ...heads(
    'sends a byte too few',
    bad,
    contentRange((b, e, n) => `bytes ${b}-${e - 1}/${n}`),
  ),
  ...heads(
    'does not know the length of the file',
    bad,
    contentRange((b, e) => `bytes ${b}-${e}/*`),
  ),
  ...heads(
    'counts in another unit',
    bad,
    contentRange((b, e, n) => `items ${b}-${e}/${n}`),
  ),
  ...heads(
    'has more bytes than numbers can count',
    bad,
    contentRange((b, e) => `bytes ${b}-${e}/99999999999999999999`),
  ),
  ...heads(
    'sends nonsense as Content-Range',
    bad,
    contentRange(() => 'bytes -5/x'),
  ),
  ...heads('sends status 204', bad, () => ({ status: 204, body: '' })),
  ...heads('contradicts itself about the length', bad, ({ begin, end }) => ({
    headers: { 'Content-Length': end - begin - 1 },
    body: FILE.slice(begin, end - 1),
  })),
  ...heads('compresses', bad, () => ({ headers: { 'Content-Encoding': 'x-unknown' } })),
  {
    name: 'compresses unless it is told not to',
    answer: (exchange) => {
      const encodings = new Set(exchange.request.headers['accept-encoding'].split(/,\s*/));
      const isPlain = encodings.size === 1 && encodings.has('identity');
      exchange.send(isPlain ? {} : { headers: { 'Content-Encoding': 'gzip' } });
    },
  },
  {
    name: 'refuses the range of a file that has it',
    answer: (exchange) => exchange.refuse(416, { 'Content-Range': `bytes */${FILE.length}` }),
    code: bad,
  },
  {
    name: 'refuses the range of a file that has it, later',
    answer: second((exchange) =>
      exchange.refuse(416, { 'Content-Range': `bytes */${FILE.length}` }),
    ),
    code: bad,
  },
  {
    name: 'refuses a range without a reason',
    answer: second((exchange) => exchange.refuse(416)),
    code: bad,
  },
  {
    name: 'has a shorter file than others think',
    answer: (exchange) => exchange.send({ file: FILE.subarray(0, 3000) }),
    run: async ({ file }) => file.readInto(new Uint8Array(2000), 2000),
    code: bad,
    requests: 1,
  },
  {
    name: 'refuses a range because the file has become shorter',
    answer: second((exchange) => exchange.refuse(416, { 'Content-Range': 'bytes */1500' })),
    code: changed,
  },
  {
    name: 'has an empty file, of which there are no ranges',
    answer: (exchange) => exchange.refuse(416, { 'Content-Range': 'bytes */0' }, ''),
    run: async ({ file }) => {
      const { bytes, fileByteLength } = await file.readStart(100);
      assert.deepEqual([bytes.length, fileByteLength], [0, 0]);
    },
  },
  {
    name: 'has an empty file, and an error page about its ranges',
    answer: (exchange) => exchange.refuse(416, { 'Content-Range': 'bytes */0' }, 'no range'),
    run: async ({ file }) => {
      const { bytes, fileByteLength } = await file.readStart(100);
      assert.deepEqual([bytes.length, fileByteLength], [0, 0]);
    },
    requests: 1,
  },
];

const BODIES = [
  {
    name: 'goes on after the range for ever',
    answer: second((exchange) => exchange.sendEndless()),
    code: bad,
    requests: 2,
    check: ({ lie }) => assert.ok(lie.sent < 20e6, `${lie.sent} bytes`),
  },
  {
    name: 'sends one byte after the range',
    answer: second((exchange) =>
      exchange.send({
        headers: { 'Content-Length': undefined },
        body: FILE.slice(exchange.begin, exchange.end + 1),
      }),
    ),
    code: bad,
    requests: 2,
  },
  {
    name: 'ends a body too early, again and again',
    answer: second((exchange) =>
      exchange.send({
        headers: { 'Content-Length': undefined },
        body: FILE.slice(exchange.begin, exchange.begin + 10),
      }),
    ),
    code: bad,
    requests: 6,
  },
  {
    name: 'ends a body too early, once',
    answer: (exchange) =>
      exchange.count === 2
        ? exchange.send({
            headers: { 'Content-Length': undefined },
            body: FILE.slice(exchange.begin, exchange.begin + 10),
          })
        : exchange.send(),
    check: ({ asked }) => assert.equal(asked[2].headers.range, 'bytes=2010-6999'),
  },
  {
    name: 'breaks the connection in a body, once',
    answer: (exchange) => (exchange.count === 2 ? exchange.breakAfter(300) : exchange.send()),
    check: ({ asked }) => assert.match(asked.at(-1).headers.range, /^bytes=2[0-3]\d\d-6999$/),
  },
  {
    name: 'breaks the connection in the first body, once',
    answer: (exchange) => (exchange.count === 1 ? exchange.breakAfter(300) : exchange.send()),
  },
  {
    name: 'breaks the connection in a body, again and again',
    answer: second((exchange) => exchange.breakAfter(1)),
    code: unavailable,
    requests: 6,
  },
  {
    name: 'breaks the connection before it answers, again and again',
    answer: (exchange) => exchange.response.destroy(),
    code: unavailable,
    // Bun and Deno send once more by themselves when a connection that was kept alive breaks.
    check: ({ asked }) => assert.ok(asked.length >= 5, `${asked.length} requests`),
  },
  {
    name: 'breaks the connection after the last byte',
    answer: second((exchange) => {
      const { begin, end, response } = exchange;
      const range = `bytes ${begin}-${end - 1}/${FILE.length}`;
      response.writeHead(206, { 'Content-Range': range, ETag: '"first"' });
      // Unlike a body of a known length, this one has an end of its own.
      response.write(FILE.subarray(begin, end), () => setTimeout(() => response.destroy(), 50));
    }),
    requests: 2,
  },
  {
    name: 'does not end a body after the last byte',
    answer: second(({ begin, end, response }) => {
      const range = `bytes ${begin}-${end - 1}/${FILE.length}`;
      response.writeHead(206, { 'Content-Range': range, ETag: '"first"' });
      response.write(FILE.subarray(begin, end));
    }),
    stallMs: 1000,
    requests: 2,
  },
  {
    name: 'breaks the connection in a body, and goes on with another version',
    answer: (exchange) => {
      if (exchange.count === 2) exchange.breakAfter(300);
      else if (exchange.count === 1) exchange.send();
      else exchange.send({ file: NEXT_FILE, headers: { ETag: '"second"' } });
    },
    code: changed,
  },
];

const tagged = (ETag) => ({ headers: { ETag } });
const dated = (date, ETag) => ({
  headers: { ETag, 'Last-Modified': `Sun, ${date} Nov 2026 10:00:00 GMT` },
});

const VERSIONS = [
  versions('has another version, by its strong ETag', tagged('"first"'), tagged('"second"')),
  versions('has another version, by its weak ETag', tagged('W/"first"'), tagged('W/"second"')),
  versions('weakens its ETag', tagged('"first"'), tagged('W/"first"')),
  versions('forgets its ETag', tagged('"first"'), tagged(undefined)),
  versions('has another version, by its date', dated('15', undefined), dated('22', undefined)),
  versions(
    'has another version, by date and weak ETag',
    dated('15', 'W/"a"'),
    dated('22', 'W/"a"'),
  ),
  versions(
    'has another length',
    {},
    {
      file: FILE,
      headers: { 'Content-Range': `bytes 2000-6999/${FILE.length + 1}` },
    },
  ),
  {
    name: 'has another version, whole',
    answer: second((exchange) =>
      exchange.send({
        status: 200,
        body: new Uint8Array(6999),
        headers: { 'Content-Range': undefined },
      }),
    ),
    run: async ({ file }) => {
      await file.readStart(1000);
      await file.readInto(new Uint8Array(FILE.length), 0);
    },
    code: changed,
  },
];

/** The same URL on the other server. */
const elsewhere = ({ servers, request }) => `${servers.elsewhere}${request.url}`;

const REDIRECTS = [
  ...[301, 302, 303, 307, 308].map((status) => ({
    name: `redirects by ${status} to a relative URL`,
    answer: (exchange) =>
      exchange.request.url.endsWith('?there')
        ? exchange.send()
        : exchange.redirect('./file.safetensors?there', status),
    token: TOKEN,
    check: ({ asked }) => {
      for (const { headers } of asked) assert.equal(headers.authorization, `Bearer ${TOKEN}`);
    },
  })),
  {
    name: 'redirects to another host, which gets neither token nor headers',
    answer: (exchange) =>
      exchange.isElsewhere
        ? exchange.send()
        : exchange.redirect(`${elsewhere(exchange)}?signature=x`),
    token: TOKEN,
    headers: { 'X-Key': 'secret key' },
    check: ({ asked }) => {
      const there = asked.filter(({ isElsewhere }) => isElsewhere);
      assert.equal(there.length, 2);
      for (const { headers } of there) {
        assert.deepEqual([headers.authorization, headers['x-key']], [undefined, undefined]);
      }
      const here = asked.filter(({ isElsewhere }) => !isElsewhere);
      // Later requests go to the other host at once.
      assert.equal(here.length, 1);
      assert.equal(here[0].headers.authorization, `Bearer ${TOKEN}`);
      assert.equal(here[0].headers['x-key'], 'secret key');
    },
  },
  {
    name: 'redirects to another host, back, and on from there',
    answer: (exchange) => {
      const { servers, request, isElsewhere } = exchange;
      if (isElsewhere) exchange.redirect(`${servers.origin}${request.url}?back`);
      else if (request.url.endsWith('?back')) exchange.redirect('?back&again');
      else if (request.url.endsWith('again')) exchange.send();
      else exchange.redirect(elsewhere(exchange));
    },
    token: TOKEN,
    headers: { 'X-Key': 'secret key' },
    check: ({ asked }) => {
      const back = asked.filter(({ url }) => url.includes('?back'));
      assert.ok(back.length >= 4);
      for (const { headers } of back) {
        assert.deepEqual([headers.authorization, headers['x-key']], [undefined, undefined]);
      }
    },
  },
  {
    name: 'redirects in a circle',
    answer: (exchange) => exchange.redirect(exchange.request.url),
    code: bad,
    requests: 11,
  },
  {
    name: 'redirects to nowhere',
    answer: (exchange) => exchange.refuse(302),
    code: bad,
    requests: 1,
  },
  ...[
    'file:///etc/passwd',
    'ftp://127.0.0.1/x',
    'data:,x',
    'http://u:p@127.0.0.1/x',
    'http://[',
  ].map((location) => ({
    name: `redirects to ${location}`,
    answer: (exchange) => exchange.redirect(location),
    code: unsafe,
    requests: 1,
  })),
  {
    name: 'redirects with a body without an end',
    answer: (exchange) =>
      exchange.request.url.endsWith('?there')
        ? exchange.send()
        : exchange.sendEndless({ status: 302, headers: { Location: '?there' } }),
    check: ({ lie }) => assert.ok(lie.sent < 20e6, `${lie.sent} bytes`),
  },
  {
    name: 'lets a signed URL expire',
    answer: (exchange) => {
      const { isElsewhere, request, count } = exchange;
      if (!isElsewhere) exchange.redirect(`${elsewhere(exchange)}?signature=${count}`);
      else if (count === 3 && request.url.endsWith('=1')) exchange.refuse(403);
      else exchange.send();
    },
    check: ({ asked }) =>
      assert.deepEqual(
        asked.map((one) => one.isElsewhere),
        [false, true, true, false, true],
      ),
  },
  {
    name: 'redirects to a host that breaks, and then to one that does not',
    answer: (exchange) => {
      const { isElsewhere, request, count } = exchange;
      if (!isElsewhere) exchange.redirect(`${elsewhere(exchange)}?signature=${count}`);
      else if (count > 2 && request.url.endsWith('=1')) exchange.response.destroy();
      else exchange.send();
    },
  },
  {
    name: 'signs URLs that are never accepted',
    answer: (exchange) =>
      exchange.isElsewhere
        ? exchange.refuse(403)
        : exchange.redirect(`${elsewhere(exchange)}?signature=x`),
    code: 'SAFETENSORS_FORBIDDEN',
    requests: 4,
  },
];

/** A status, and the code that it must become, without another try. */
function refusal(status, code, headers = {}) {
  const { 'X-Error-Code': name } = headers;
  return {
    name: `refuses with ${status}${name === undefined ? '' : ` ${name}`}`,
    answer: (exchange) => exchange.refuse(status, headers),
    code,
    requests: 1,
    check: ({ error }) => assert.equal(error.status, status),
  };
}

const REFUSALS = [
  refusal(400, bad),
  refusal(401, 'SAFETENSORS_UNAUTHORIZED'),
  refusal(403, 'SAFETENSORS_FORBIDDEN'),
  refusal(404, 'SAFETENSORS_REMOTE_NOT_FOUND'),
  refusal(405, bad),
  refusal(410, 'SAFETENSORS_REMOTE_NOT_FOUND'),
  refusal(401, 'SAFETENSORS_REPOSITORY_NOT_FOUND', { 'X-Error-Code': 'RepoNotFound' }),
  refusal(404, 'SAFETENSORS_REPOSITORY_NOT_FOUND', { 'X-Error-Code': 'RepoNotFound' }),
  refusal(404, 'SAFETENSORS_REVISION_NOT_FOUND', { 'X-Error-Code': 'RevisionNotFound' }),
  refusal(404, 'SAFETENSORS_REMOTE_NOT_FOUND', { 'X-Error-Code': 'EntryNotFound' }),
  refusal(401, 'SAFETENSORS_GATED_REPOSITORY', { 'X-Error-Code': 'GatedRepo' }),
  refusal(403, 'SAFETENSORS_GATED_REPOSITORY', { 'X-Error-Code': 'GatedRepo' }),
  {
    name: 'refuses with a page without an end',
    answer: (exchange) => exchange.sendEndless({ status: 404 }),
    code: 'SAFETENSORS_REMOTE_NOT_FOUND',
    check: ({ lie }) => assert.ok(lie.sent < 20e6, `${lie.sent} bytes`),
  },
  {
    name: 'refuses with a page that stalls',
    answer: ({ response }) => response.writeHead(404).write('not'),
    code: 'SAFETENSORS_REMOTE_NOT_FOUND',
    stallMs: 5000,
    requests: 1,
  },
  ...[408, 429, 500, 502, 503, 504].map((status) => ({
    name: `answers ${status} twice`,
    answer: (exchange) => (exchange.count <= 2 ? exchange.refuse(status) : exchange.send()),
    requests: 4,
  })),
  {
    name: 'answers 503 again and again',
    answer: (exchange) => exchange.refuse(503),
    code: unavailable,
    requests: 5,
  },
  {
    name: 'asks to come back in a second',
    answer: (exchange) => {
      const { lie, count } = exchange;
      lie.times ??= [];
      lie.times.push(Date.now());
      if (count === 1) exchange.refuse(429, { 'Retry-After': '1' });
      else exchange.send();
    },
    check: ({ lie }) => assert.ok(lie.times[1] - lie.times[0] >= 990),
  },
  {
    name: 'asks to come back in an hour',
    answer: (exchange) => exchange.refuse(429, { 'Retry-After': '3600' }),
    code: unavailable,
    requests: 1,
    check: ({ error }) => assert.match(error.message, /3600 s/),
  },
];

const ECHOES = [
  {
    name: 'repeats secrets in what an error says',
    answer: ({ request, response }) => {
      const { authorization } = request.headers;
      const headers = { 'X-Error-Message': `no ${authorization} ${request.headers['x-key']}` };
      response.writeHead(403, headers).end();
    },
    code: 'SAFETENSORS_FORBIDDEN',
  },
  {
    name: 'repeats secrets where a message is cut',
    answer: ({ request, response }) => {
      const { authorization } = request.headers;
      response.writeHead(403, { 'X-Error-Message': `${'x'.repeat(105)} ${authorization}` }).end();
    },
    code: 'SAFETENSORS_FORBIDDEN',
  },
  {
    name: 'repeats secrets in the URL of a redirect',
    answer: (exchange) => {
      const { authorization } = exchange.request.headers;
      if (exchange.isElsewhere) exchange.refuse(404);
      else exchange.redirect(`${elsewhere(exchange)}/${authorization.slice(7)}?signature=x`);
    },
    code: 'SAFETENSORS_REMOTE_NOT_FOUND',
  },
  {
    name: 'repeats secrets in a range',
    answer: (exchange) =>
      exchange.send({ headers: { 'Content-Range': exchange.request.headers.authorization } }),
    code: bad,
  },
  {
    name: 'repeats secrets in an ETag',
    answer: (exchange) =>
      exchange.send({
        headers: { ETag: `"${exchange.request.headers.authorization} ${exchange.count}"` },
      }),
    code: changed,
  },
  {
    name: 'breaks connections of a URL with a secret',
    answer: (exchange) => exchange.response.destroy(),
    code: unavailable,
  },
].map((lie) => ({
  ...lie,
  token: TOKEN,
  headers: { 'X-Key': 'secret key' },
  query: '?X-Amz-Signature=secretSignature',
  check: ({ error }) => {
    const shown = [inspect(error, { depth: 9, showHidden: true }), error.message, error.stack];
    for (const text of shown) {
      for (const secret of [TOKEN.slice(0, 6), 'secret key', 'secretSignature'])
        assert.ok(!text.includes(secret), text);
    }
  },
}));

/** Lies about a repository of the Hub, which the server is. */
const REPOSITORIES = [
  {
    name: 'answers from another commit',
    answer: (exchange) =>
      exchange.send({ headers: { 'X-Repo-Commit': COMMITS[exchange.count - 1] } }),
    code: changed,
  },
  {
    name: 'has another commit on the branch meanwhile',
    answer: (exchange) => {
      const { request, count } = exchange;
      const commit = count === 1 ? COMMITS[0] : request.url.split('/').at(-2);
      const file = commit === COMMITS[0] ? FILE : NEXT_FILE;
      exchange.send({ file, headers: { 'X-Repo-Commit': commit } });
    },
    check: ({ asked }) => {
      assert.match(asked[0].url, /\/resolve\/main\//);
      assert.match(asked[1].url, /\/resolve\/1{40}\//);
    },
  },
  {
    name: 'lets another host name the commit',
    answer: (exchange) => {
      const headers = { 'X-Repo-Commit': COMMITS[1], 'X-Linked-ETag': '"x"' };
      if (exchange.isElsewhere) exchange.send({ headers });
      else exchange.redirect(`${elsewhere(exchange)}?signature=${exchange.count}`);
    },
    run: async ({ file, folder }) => {
      await file.readStart(10);
      await folder.file('file.safetensors').readStart(10);
    },
    check: ({ asked }) => assert.match(asked[2].url, /\/resolve\/main\//),
  },
  {
    name: 'has a content network whose hosts have ETags of their own',
    answer: (exchange) => {
      const { count, isElsewhere } = exchange;
      const headers = { ETag: `"${count}"`, 'X-Repo-Commit': COMMITS[0] };
      if (count === 1 || isElsewhere) exchange.send({ headers });
      else exchange.redirect(elsewhere(exchange));
    },
  },
  {
    name: 'has another ETag at the same commit',
    answer: (exchange) =>
      exchange.send({ headers: { ETag: `"${exchange.count}"`, 'X-Repo-Commit': COMMITS[0] } }),
    code: changed,
  },
  {
    name: 'names a malformed commit',
    answer: (exchange) => exchange.send({ headers: { 'X-Repo-Commit': '../../x' } }),
    check: ({ asked }) => assert.match(asked[1].url, /\/resolve\/main\//),
  },
  {
    name: 'answers 401 without a code',
    answer: (exchange) => exchange.refuse(401),
    code: 'SAFETENSORS_REPOSITORY_NOT_FOUND',
  },
  {
    name: 'does not know the token',
    answer: (exchange) =>
      exchange.refuse(401, { 'X-Error-Message': 'Invalid credentials in Authorization header' }),
    token: TOKEN,
    code: 'SAFETENSORS_UNAUTHORIZED',
  },
].map((lie) => ({ ...lie, isOnHub: true }));

/** Every lie once. */
export function makeLies() {
  const all = [RANGES, BODIES, VERSIONS, REDIRECTS, REFUSALS, ECHOES, REPOSITORIES];
  return all.flat().map((lie) => ({ ...lie }));
}

/**
 * Lets the servers tell a lie, and checks the result. `resolveSource` is that of `remote/source`, with any further
 * options, and with the receiver that `makeReceiver` makes.
 */
export async function tellLie(servers, lie, resolveSource, options = {}) {
  const { makeReceiver, ...sending } = options;
  const { folder, asked } = servers.add(lie, makeReceiver !== undefined);
  const { token, headers, query = '', isOnHub = false, run = readTwice, stallMs } = lie;
  const url = isOnHub
    ? `hf://lie/${folder}/file.safetensors`
    : `${servers.origin}/${folder}/file.safetensors${query}`;
  const endpoint = isOnHub ? servers.origin : 'https://huggingface.co';
  const settings = { endpoint, isOffline: false, readToken: () => undefined, makeReceiver };
  const { signal } = new AbortController();
  const given = { token, headers, stallMs, startByteLength: 1000, ...sending };
  const source = await resolveSource(url, given, settings, signal);
  let error;
  try {
    await run(source);
  } catch (thrown) {
    error = thrown;
  } finally {
    source.close();
  }
  if (error !== undefined && error.code !== lie.code) throw error;
  assert.equal(error?.code, lie.code);
  if (lie.requests !== undefined) assert.equal(asked.length, lie.requests);
  lie.check?.({ asked, error, lie });
}
