/** Decides which requests carry tokens and headers, and keeps these out of messages. */

import { argumentTypeError } from '../errors/arguments.js';
import { withoutQuery, withoutUsers } from '../errors/urls.js';
import { encodePath } from './hub-address.js';
import { isLoopback } from './safe-urls.js';

/** The argument of `new Headers`. */
export type HeadersInput = NonNullable<ConstructorParameters<typeof Headers>[0]>;

/** Characters that a token cannot contain: `fetch` would show the token in its error. */
const NOT_IN_TOKENS = /[^\x21-\x7e]/;

/** Least length of a secret: replacing shorter values would garble messages. */
const SHORTEST_SECRET = 4;

/** Mark of `quoteName` for a cut, which may lie inside a secret. */
const CUT = '"… (';

/** Credentials from the caller. */
export interface CallerCredentials {
  /** False to send no token at all, not even that of the environment. */
  readonly token?: string | false | undefined;
  readonly headers?: HeadersInput | undefined;
}

/** A token from the environment, such as `HF_TOKEN`, and its only origin. */
interface AmbientToken {
  readonly origin: string;
  readonly token: string;
}

/** Throws a TypeError, without showing the token, unless a header can carry it. */
export function requireToken(name: string, token: unknown): void {
  if (typeof token !== 'string') throw argumentTypeError(name, 'a string or false', token);
  if (token !== '' && !NOT_IN_TOKENS.test(token)) return;
  const message = `${name} must be only a token, without "Bearer", spaces and line breaks`;
  throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_ARG_VALUE' });
}

function headersFrom(input: HeadersInput): Headers {
  try {
    return new Headers(input);
  } catch {
    // The error of Headers shows the value.
    const message = 'headers must be names and values that a request can have';
    throw Object.assign(new TypeError(message), { code: 'ERR_INVALID_ARG_VALUE' });
  }
}

/**
 * The caller's token and headers, sent to the origin of the source alone, and a token of the environment, sent to the
 * origin of the Hub alone. Plain `http:` carries none of them, except to this machine.
 */
export class Credentials {
  readonly #sourceOrigin: string;
  readonly #headers: Headers;
  readonly #ambient: AmbientToken | undefined;

  /** @throws TypeError `ERR_INVALID_ARG_VALUE` for a token or headers that cannot be sent */
  constructor(source: URL, { token, headers = [] }: CallerCredentials, ambient?: AmbientToken) {
    this.#sourceOrigin = source.origin;
    this.#headers = headersFrom(headers);
    if (token !== undefined && token !== false) {
      requireToken('token', token);
      this.#headers.set('authorization', `Bearer ${token}`);
    }
    if (ambient !== undefined)
      requireToken('the token of HF_TOKEN or the token file', ambient.token);
    this.#ambient = ambient;
  }

  /** The headers for a request unless another host has redirected it. */
  headersFor(url: URL): Headers {
    if (url.protocol === 'http:' && !isLoopback(url)) return new Headers();
    const headers = new Headers(url.origin === this.#sourceOrigin ? this.#headers : []);
    const ambient = this.#ambient;
    if (ambient?.origin === url.origin && !headers.has('authorization')) {
      headers.set('authorization', `Bearer ${ambient.token}`);
    }
    return headers;
  }

  /** Removes secrets, and the queries of URLs, from a text. */
  redact(text: string): string {
    const shown = this.#spellings().reduce(
      (rest, secret) => cutBefore(rest.replaceAll(secret, '…'), secret),
      text,
    );
    return withoutUsers(shown.replace(/[^\s"']+/g, withoutQuery));
  }

  /** The secrets in all spellings: plain, as in JSON, as in a URL; the longest first. */
  #spellings(): string[] {
    const values = Array.from(this.#headers, ([, value]) => value);
    const tokens = values.map((value) => value.replace(/^\S+ /, ''));
    const secrets = [...values, ...tokens, this.#ambient?.token ?? ''];
    const spellings = secrets
      .filter((secret) => secret.length >= SHORTEST_SECRET)
      .flatMap((secret) => [
        secret,
        JSON.stringify(secret).slice(1, -1),
        encodeURI(secret),
        encodeURIComponent(secret),
        encodePath(secret),
      ]);
    return [...new Set(spellings)].sort((a, b) => b.length - a.length);
  }
}

/** Removes the beginning of a secret before the cut of a name. */
function cutBefore(text: string, secret: string): string {
  const parts = text.split(CUT);
  const last = parts.pop() as string;
  const shown = parts.map((part) => {
    let length = Math.min(secret.length - 1, part.length);
    while (length >= SHORTEST_SECRET && !part.endsWith(secret.slice(0, length))) length--;
    return length < SHORTEST_SECRET ? part : part.slice(0, part.length - length);
  });
  return [...shown, last].join(CUT);
}
