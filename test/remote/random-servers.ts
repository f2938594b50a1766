/** Servers that answer as no standard asks them to, made at random, and what must be accepted of them. */
import { Buffer } from 'node:buffer';
import { createHash } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import type { Random } from '../support/random.js';

const RANGES = ['honoured', 'ignored', 'no Content-Range', 'larger', 'multipart', '416'] as const;
const FRAMINGS = ['length', 'chunked', 'close'] as const;
/** `aws-chunked` is what S3 stores as metadata of a body that it sends as it is. */
const CODINGS = [
  '',
  'identity',
  'gzip',
  'x-gzip',
  'br',
  'deflate',
  'aws-chunked',
  'wrong',
] as const;
const REDIRECTS = ['none', 'same host', 'other host'] as const;

/** How a server answers requests for its file. */
export interface Behaviour {
  readonly ranges: (typeof RANGES)[number];
  /** The following are those of answers with the whole file. */
  readonly framing: (typeof FRAMINGS)[number];
  readonly coding: (typeof CODINGS)[number];
  readonly body: 'right' | 'shorter' | 'longer' | 'changed';
  readonly redirect: (typeof REDIRECTS)[number];
  readonly tag: string | undefined;
}

/** Half of the bodies are right, the others have one of the faults. */
export function randomBehaviour(random: Random, faults: readonly Behaviour['body'][]): Behaviour {
  const coding = random.pick(CODINGS);
  return {
    ranges: random.pick(RANGES),
    // The `fetch` of Node 20 never ends a body that has no end of its own and is not compressed as labelled.
    framing: coding === 'wrong' ? 'length' : random.pick(FRAMINGS),
    coding,
    body: faults.length > 0 && random.chance(0.5) ? random.pick(faults) : 'right',
    redirect: random.pick(REDIRECTS),
    tag: random.pick([undefined, '"strong"', 'W/"weak"']),
  };
}

/** Longest file that openRemote keeps when it comes whole. */
const KEPT_BYTE_LENGTH = 100_000;

/** What the client knows of the file: by the Hub's list, or nothing. */
export type Knowledge = 'hash' | 'length' | 'nothing';

/** Whether `download` must give the file. Everything else must be an error. */
export function isDownloadable(
  { ranges, framing, coding, body }: Behaviour,
  byteLength: number,
  knowledge: Knowledge,
): boolean {
  if (ranges === 'honoured') return true;
  if (body !== 'right' || coding === 'wrong') return false;
  const isPlain = coding === '' || coding === 'identity';
  switch (knowledge) {
    case 'hash':
      return true;
    case 'length':
      return coding !== 'aws-chunked';
    default:
      if (!isPlain) return false;
      if (framing === 'length') return true;
      return framing === 'chunked' && byteLength <= KEPT_BYTE_LENGTH && ranges === 'ignored';
  }
}

/** Whether `openRemote` must read the tensors of the file. */
export function isReadable(
  { ranges, framing, coding, body }: Behaviour,
  byteLength: number,
): boolean {
  if (ranges === 'honoured') return true;
  if (ranges !== 'ignored' || body !== 'right' || byteLength > KEPT_BYTE_LENGTH) return false;
  if (coding === '' || coding === 'identity') return framing !== 'close';
  return coding !== 'wrong' && coding !== 'aws-chunked';
}

const COMMIT = 'a'.repeat(40);

function encoded(bytes: Uint8Array, coding: Behaviour['coding']): Uint8Array {
  if (coding === 'gzip' || coding === 'x-gzip') return gzipSync(bytes);
  if (coding === 'br') return brotliCompressSync(bytes);
  return coding === 'deflate' ? deflateSync(bytes) : bytes;
}

/** Of the same start, so that only length and hash differ. */
function bodyOf(bytes: Uint8Array, body: Behaviour['body']): Uint8Array {
  if (body === 'shorter') return bytes.subarray(0, -3);
  // Compressed, the rest is a few bytes.
  if (body === 'longer') return Buffer.concat([bytes, Buffer.alloc(1_000_000)]);
  if (body === 'right') return bytes;
  const changed = Uint8Array.from(bytes);
  changed[changed.length - 1] = 255 - Number(bytes.at(-1));
  return changed;
}

/** A file, and how it is served. */
export interface Served {
  readonly bytes: Uint8Array;
  readonly behaviour: Behaviour;
  readonly knowledge: Knowledge;
}

/** Two servers of one file: of a Hub with its list, and for redirects to another host. */
export class RandomServer {
  /** Replaced for every case. */
  served: Served | undefined;
  /** Values of `Authorization` that came to the other host. */
  readonly leaks: (string | undefined)[] = [];
  url = '';
  #other = '';
  readonly #servers: Server[] = [];

  static async start(): Promise<RandomServer> {
    const started = new RandomServer();
    started.url = await started.#listen((request, response) => {
      const { url = '' } = request;
      if (url.startsWith('/api/')) started.#list(url, response);
      else started.#redirect(request, response);
    });
    started.#other = await started.#listen((request, response) => {
      started.leaks.push(request.headers.authorization);
      started.#answer(request, response);
    });
    return started;
  }

  get #case(): Served {
    return this.served as Served;
  }

  async close(): Promise<void> {
    for (const server of this.#servers) {
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    }
  }

  async #listen(
    answer: (request: IncomingMessage, response: ServerResponse) => void,
  ): Promise<string> {
    const server = createServer(answer);
    this.#servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    return `http://127.0.0.1:${Object(server.address()).port}`;
  }

  #list(url: string, response: ServerResponse): void {
    const { bytes, knowledge } = this.#case;
    const oid = createHash('sha256').update(bytes).digest('hex');
    const path = 'model.safetensors';
    const lfs = knowledge === 'hash' ? { lfs: { oid } } : {};
    const entry = { type: 'file', path, size: bytes.length, ...lfs };
    response.end(JSON.stringify(url.includes('/tree/') ? [entry] : { sha: COMMIT }));
  }

  #redirect(request: IncomingMessage, response: ServerResponse): void {
    const { redirect } = this.#case.behaviour;
    const { url = '' } = request;
    if (redirect === 'none' || url.endsWith('?there')) {
      this.#answer(request, response);
      return;
    }
    const Location = `${redirect === 'other host' ? this.#other : ''}${url}?there`;
    response.writeHead(302, { Location }).end('moved');
  }

  #answer({ headers }: IncomingMessage, response: ServerResponse): void {
    const { bytes, behaviour } = this.#case;
    const { ranges, tag } = behaviour;
    if (tag !== undefined) response.setHeader('ETag', tag);
    const [, first, last] = /^bytes=(\d+)-(\d+)$/.exec(headers.range ?? '') ?? [];
    if (first === undefined || ranges === 'ignored') {
      this.#sendWhole(response);
      return;
    }
    if (ranges === '416') {
      response.writeHead(416).end();
      return;
    }
    const [begin, end] = [Number(first), Math.min(Number(last) + 1, bytes.length)];
    const isLarger = ranges === 'larger';
    const sent = isLarger ? bytes : bytes.subarray(begin, end);
    const range = isLarger ? `0-${bytes.length - 1}` : `${begin}-${end - 1}`;
    response.statusCode = 206;
    if (ranges === 'multipart') {
      response.setHeader('Content-Type', 'multipart/byteranges; boundary=x');
      response.end(`--x\r\nContent-Range: bytes ${range}/${bytes.length}\r\n\r\n--x--`);
      return;
    }
    // Beyond what was requested only if that is not all of the file.
    const isSame = isLarger && begin === 0 && end === bytes.length;
    if (ranges !== 'no Content-Range' && !isSame) {
      response.setHeader('Content-Range', `bytes ${range}/${bytes.length}`);
    }
    response.setHeader('Content-Length', sent.length).end(sent);
  }

  #sendWhole(response: ServerResponse): void {
    const { framing, coding, body } = this.#case.behaviour;
    const bytes = encoded(bodyOf(this.#case.bytes, body), coding);
    if (coding !== '') response.setHeader('Content-Encoding', coding === 'wrong' ? 'gzip' : coding);
    if (framing === 'length') response.setHeader('Content-Length', bytes.length);
    if (framing === 'close') {
      response.setHeader('Connection', 'close');
      response.removeHeader('Transfer-Encoding');
    }
    // Two pieces keep Node from adding the length.
    response.write(bytes.subarray(0, 1));
    response.end(bytes.subarray(1));
  }
}
