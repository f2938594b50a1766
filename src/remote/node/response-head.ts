/** Parses the head of an HTTP/1.1 answer: strictly, since `fetch` takes what is refused here. */

/** Status and headers, and what they say about body and connection. */
export interface ResponseHead {
  readonly status: number;
  readonly headers: Headers;
  /** `Content-Length`; null without one, or if the body is chunked. */
  readonly bodyByteLength: number | null;
  /** Milliseconds for which the server keeps the connection, as far as it says; 0 if it closes it. */
  readonly keepAliveMs: number;
}

/** Longest head. Node accepts 16 KiB by default, other servers up to 64. */
export const MAX_HEAD_BYTE_LENGTH: number = 2 ** 16;

const STATUS_LINE = /^HTTP\/1\.1 ([2-5]\d\d)(?: [\t\x20-\x7e]*)?$/;

/** A name, and a value without spaces around it. Continued lines, which begin with a space, do not match. */
const FIELD =
  /^([\w!#$%&'*+.^`|~-]+):[\t ]*((?:[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?)?)[\t ]*$/;

/** Fields that may be repeated: their values form a list, or nobody reads them. */
const REPEATABLE = new Set(['cache-control', 'link', 'server-timing', 'set-cookie', 'vary', 'via']);

/** Every head that is accepted starts with it. */
const START = 'HTTP/1.1 ';

const TAB = 9;
const CARRIAGE_RETURN = 13;
const LINE_FEED = 10;

/** Position after the empty line that ends a head; -1 without one. Looks at `[from, end)` and three bytes before. */
export function headEnd(bytes: Uint8Array, from: number, end: number): number {
  for (let at = Math.max(from, 3); at < end; at++) {
    const isEnd =
      bytes[at] === LINE_FEED &&
      bytes[at - 1] === CARRIAGE_RETURN &&
      bytes[at - 2] === LINE_FEED &&
      bytes[at - 3] === CARRIAGE_RETURN;
    if (isEnd) return at + 1;
  }
  return -1;
}

/**
 * Whether an incomplete head may become one that `parseResponseHead` accepts. Checks `[from, end)`, after earlier calls
 * for the bytes before: a server of another protocol waits for an answer, and never completes a head.
 */
export function mayBecomeHead(bytes: Uint8Array, from: number, end: number): boolean {
  for (let at = from; at < end; at++) {
    const byte = bytes[at] as number;
    const before = bytes[at - 1];
    if (at < START.length && byte !== START.charCodeAt(at)) return false;
    if ((byte === LINE_FEED) !== (before === CARRIAGE_RETURN)) return false;
    if (byte === LINE_FEED && !isLine(bytes, at - 1)) return false;
    const isText = byte === TAB || (byte >= 0x20 && byte < 0x7f);
    if (!isText && byte !== CARRIAGE_RETURN && byte !== LINE_FEED) return false;
  }
  return true;
}

/** Whether the line that ends at `end` is a status line or a field. */
function isLine(bytes: Uint8Array, end: number): boolean {
  const begin = bytes.lastIndexOf(LINE_FEED, end - 1) + 1;
  const line = Buffer.from(bytes.buffer, bytes.byteOffset + begin, end - begin).toString('latin1');
  return (begin === 0 ? STATUS_LINE : FIELD).test(line);
}

/**
 * Parses a head, up to and with its empty line; one character a byte. Null unless it is an HTTP/1.1 answer with a
 * final status, of printable ASCII, whose fields can be read in one way only.
 */
export function parseResponseHead(text: string): ResponseHead | null {
  if (!text.endsWith('\r\n\r\n')) return null;
  const [statusLine = '', ...lines] = text.slice(0, -4).split('\r\n');
  const status = STATUS_LINE.exec(statusLine)?.[1];
  if (status === undefined) return null;
  const headers = new Headers();
  for (const line of lines) {
    const [, name = '', value = ''] = FIELD.exec(line) ?? [];
    const isAgain = headers.has(name === '' ? 'x' : name) && !REPEATABLE.has(name.toLowerCase());
    if (name === '' || isAgain) return null;
    headers.append(name, value);
  }
  const length = headers.get('content-length');
  const isChunked = headers.has('transfer-encoding');
  if (length !== null && (isChunked || !/^\d{1,15}$/.test(length))) return null;
  return {
    status: Number(status),
    headers,
    bodyByteLength: length === null ? null : Number(length),
    keepAliveMs: keepAliveMs(headers),
  };
}

function keepAliveMs(headers: Headers): number {
  const connection = headers.get('connection') ?? 'keep-alive';
  if (connection.toLowerCase() !== 'keep-alive') return 0;
  const seconds = /(?:^|[\s,])timeout=(\d{1,9})(?:[\s,]|$)/i.exec(headers.get('keep-alive') ?? '');
  return seconds === null ? Number.POSITIVE_INFINITY : Number(seconds[1]) * 1000;
}
