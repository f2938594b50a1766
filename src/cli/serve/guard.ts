/**
 * Who may ask: requests to this address, from this page, with the token.
 *
 * A page of another site can make a browser send requests to 127.0.0.1, and by a name that leads there
 * (DNS rebinding) even read the answers. Its `Host` or `Origin` gives it away, and it cannot know the token. Other
 * users of this machine can connect, too: to them the token is all that is between.
 */

import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';

/** Bytes of a token: nobody guesses 256 bits. */
const TOKEN_BYTE_LENGTH = 32;

/** The header that has the token, in every request but that for the page. */
const TOKEN_HEADER = 'x-safetensors-token';

/** The port that a `Host` may leave out. */
const HTTP_PORT = 80;

/** Methods that are answered. */
export const METHODS: readonly string[] = ['GET', 'HEAD'];

/** Why a request gets no answer. */
export interface Rejection {
  readonly status: 400 | 403 | 405;
  readonly reason: string;
}

/** A secret text for addresses and headers. */
export function makeToken(): string {
  return randomBytes(TOKEN_BYTE_LENGTH).toString('base64url');
}

/** Compares texts in a time that does not tell how they differ. */
export function isSecret(given: string, secret: string): boolean {
  // Hashes have one length.
  const hashOf = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(hashOf(given), hashOf(secret));
}

/** The only value of a header; undefined when it is missing or given twice. */
function onlyValue(request: IncomingMessage, name: string): string | undefined {
  const values = request.headersDistinct[name] ?? [];
  return values.length === 1 ? values[0] : undefined;
}

function hostsOf(port: number): string[] {
  const ports = port === HTTP_PORT ? ['', `:${port}`] : [`:${port}`];
  return ports.flatMap((end) => [`127.0.0.1${end}`, `localhost${end}`]);
}

/** The objection to a request, whatever it asks for; null without one. It has shown no token yet. */
export function objectionTo(request: IncomingMessage, port: number): Rejection | null {
  const { method = '', url = '', headers, headersDistinct } = request;
  if (!METHODS.includes(method)) return { status: 405, reason: 'only GET and HEAD are answered' };
  const host = onlyValue(request, 'host')?.toLowerCase();
  if (host === undefined || !hostsOf(port).includes(host)) {
    return { status: 403, reason: 'the Host of the request is not the address of this server' };
  }
  const isForeign = headersDistinct['origin']?.some((origin) => origin !== `http://${host}`);
  if (isForeign === true) return { status: 403, reason: 'requests from other pages are refused' };
  const length = headers['content-length'] ?? '0';
  if (length !== '0' || headers['transfer-encoding'] !== undefined) {
    return { status: 400, reason: 'a request has no body here' };
  }
  // An absolute URI is for proxies.
  return url.startsWith('/') ? null : { status: 400, reason: 'expected a path' };
}

/** Whether the header of a request has the token. */
export function hasToken(request: IncomingMessage, token: string): boolean {
  const given = onlyValue(request, TOKEN_HEADER);
  return given !== undefined && isSecret(given, token);
}
