/** One connection to a server: sends requests one after the other, and reads their bodies straight into their place. */

import { connect, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { whenAborted } from '../../work/abort-listeners.js';
import type { PlacedAnswer, RequestInto } from '../receiver.js';
import { PlacedBody } from './receive-into.js';
import {
  headEnd,
  MAX_HEAD_BYTE_LENGTH,
  mayBecomeHead,
  parseResponseHead,
  type ResponseHead,
} from './response-head.js';

/** Most milliseconds that a connection is kept without a request, as `fetch` keeps its own. */
const LONGEST_IDLE_MS = 4000;

/** A connection ends this much before the server closes it, so that no request meets a closed one. */
const IDLE_MARGIN_MS = 1000;

/** The request under way. */
interface Exchange {
  readonly request: RequestInto;
  /** Undefined until there is a plain answer. */
  body: PlacedBody | undefined;
  /** Milliseconds for which the connection is kept afterwards. */
  idleMs: number;
  answer(answer: PlacedAnswer | null): void;
  fail(reason: unknown): void;
  /** Removes the listener of the signal. */
  forgetSignal(): void;
}

/** A connection. While it has no request, it keeps neither the process nor any memory of tensors. */
export class Connection {
  readonly #socket: Socket;
  readonly #onIdle: (idle: Connection) => void;
  /** Memory for heads. The kernel writes here unless a body is incomplete. */
  readonly #head = new Uint8Array(MAX_HEAD_BYTE_LENGTH);
  #headByteLength = 0;
  #exchange: Exchange | undefined;
  #isConnected = false;
  #isOpen = true;

  /** Connects. Calls back when a later request may use the connection. */
  constructor(url: URL, onIdle: (idle: Connection) => void) {
    this.#onIdle = onIdle;
    const isTls = url.protocol === 'https:';
    const host = url.hostname.replace(/^\[|\]$/g, '');
    const options = {
      host,
      port: Number(url.port || (isTls ? 443 : 80)),
      // Node asks for the memory of the next read after every read.
      onread: {
        buffer: () => this.#exchange?.body?.rest ?? this.#head.subarray(this.#headByteLength),
        callback: (byteLength: number) => {
          this.#read(byteLength);
          return true;
        },
      },
    };
    const servername = isIP(host) === 0 ? host : '';
    // Certificates are checked by Node's defaults, as those of `fetch` are.
    const socket = isTls
      ? connectTls({ ...options, servername, ALPNProtocols: ['http/1.1'] })
      : connect(options);
    this.#socket = socket;
    socket.once(isTls ? 'secureConnect' : 'connect', () => {
      this.#isConnected = true;
      this.#write();
    });
    socket.on('error', (error) => this.#end(error));
    socket.on('end', () => this.#end(new Error('other side closed')));
    socket.on('close', () => this.#end(new Error('closed')));
    socket.on('timeout', () => this.close());
  }

  /** Whether it can take a request, as far as this side knows. */
  get isOpen(): boolean {
    return this.#isOpen;
  }

  /** As in `Receiver`. Call it when no other request is under way. */
  async ask(request: RequestInto): Promise<PlacedAnswer | null> {
    return await new Promise((resolve, reject) => {
      const abort = (): void => this.#end(request.signal.reason);
      const forgetSignal = whenAborted(request.signal, abort);
      const callbacks = { answer: resolve, fail: reject, forgetSignal };
      this.#exchange = { request, body: undefined, idleMs: 0, ...callbacks };
      this.#socket.setTimeout(0);
      this.#socket.ref();
      if (request.signal.aborted) abort();
      // Nothing is sent before the certificate of the server was checked.
      else if (this.#isConnected) this.#write();
    });
  }

  /** Closes it. A request that is under way fails. */
  close(): void {
    this.#end(new Error('closed'));
  }

  #write(): void {
    const request = this.#exchange?.request;
    if (request !== undefined && this.#isOpen) this.#socket.write(requestHead(request), 'latin1');
  }

  #read(byteLength: number): void {
    const exchange = this.#exchange;
    // A server that speaks without being asked, or goes on after a body.
    if (exchange === undefined) this.close();
    else if (exchange.body === undefined) this.#readHead(exchange, byteLength);
    else {
      exchange.body.add(byteLength);
      if (exchange.body.isComplete) this.#finish(exchange);
    }
  }

  #readHead(exchange: Exchange, byteLength: number): void {
    const before = this.#headByteLength;
    this.#headByteLength += byteLength;
    const end = headEnd(this.#head, before, this.#headByteLength);
    const isIncomplete =
      end < 0 &&
      this.#headByteLength < MAX_HEAD_BYTE_LENGTH &&
      mayBecomeHead(this.#head, before, this.#headByteLength);
    if (isIncomplete) return;
    const text = Buffer.from(this.#head.buffer, 0, Math.max(end, 0)).toString('latin1');
    const head = parseResponseHead(text);
    const kind = head === null ? 'unclear' : kindOf(head, exchange.request);
    if (head === null || kind === 'unclear') {
      exchange.answer(null);
      this.close();
      return;
    }
    const { status, headers, keepAliveMs } = head;
    const response = new Response(null, { status, headers });
    if (kind === 'without body') {
      exchange.answer({ response });
      this.close();
      return;
    }
    const body = new PlacedBody(exchange.request.target);
    exchange.body = body;
    exchange.idleMs = Math.min(keepAliveMs - IDLE_MARGIN_MS, LONGEST_IDLE_MS);
    const surplus = body.copyStart(this.#head.subarray(end, this.#headByteLength));
    if (surplus > 0) exchange.idleMs = 0;
    exchange.answer({ response, receive: (arrived) => body.receive(arrived) });
    if (body.isComplete) this.#finish(exchange);
  }

  /** Gives up the target. */
  #finish({ idleMs, forgetSignal }: Exchange): void {
    forgetSignal();
    this.#exchange = undefined;
    this.#headByteLength = 0;
    if (idleMs <= 0) {
      this.close();
      return;
    }
    this.#socket.setTimeout(idleMs);
    this.#socket.unref();
    this.#onIdle(this);
  }

  #end(reason: unknown): void {
    this.#isOpen = false;
    this.#socket.destroy();
    const exchange = this.#exchange;
    if (exchange === undefined) return;
    this.#exchange = undefined;
    exchange.forgetSignal();
    // `fetch` makes the error of a host that cannot be reached.
    if (!this.#isConnected && !exchange.request.signal.aborted) exchange.answer(null);
    else exchange.fail(reason);
    exchange.body?.fail(reason);
  }
}

/** Whether the body is the range that was asked for, is of no use, or has a length that only `fetch` finds out. */
function kindOf(
  { status, headers, bodyByteLength }: ResponseHead,
  { target, headers: asked }: RequestInto,
): 'plain' | 'without body' | 'unclear' {
  if (status === 200 || (status === 206 && bodyByteLength === null)) return 'unclear';
  const range = `${asked.get('range')?.replace('=', ' ')}/`;
  const isPlain =
    status === 206 &&
    bodyByteLength === target.length &&
    !headers.has('content-encoding') &&
    headers.get('content-range')?.startsWith(range) === true;
  return isPlain ? 'plain' : 'without body';
}

/** The request as bytes. The names and values of `Headers` have no line ends; those of the caller come first. */
function requestHead({ url, headers }: RequestInto): string {
  const fields = new Headers({ accept: '*/*', 'user-agent': 'node' });
  for (const [name, value] of headers) fields.set(name, value);
  const lines = Array.from(fields, ([name, value]) => `${name}: ${value}\r\n`);
  const start = `GET ${url.pathname}${url.search} HTTP/1.1\r\nhost: ${url.host}\r\n`;
  return `${start}connection: keep-alive\r\n${lines.join('')}\r\n`;
}
