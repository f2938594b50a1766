/** Which requests get tokens and headers, and how these stay out of messages. */

import { argumentTypeError } from '../errors/arguments.js';
import { encodePath } from './hub-address.js';
import { isLoopback } from './safe-urls.js';

/** What `new Headers` takes. */
export type HeadersInput = NonNullable<ConstructorParameters<typeof Headers>[0]>;

/** Characters of a header's value that no token has: with one, `fetch` would show it in its error. */
const NOT_IN_TOKENS = /[^\x21-\x7e]/;

/** Shorter values are no secrets, and replacing them would garble messages. */
const SHORTEST_SECRET = 4;

/** Where `quoteName` has cut a name, which may be in the middle of a secret. */
const CUT = '"… (';

/** What a caller gives explicitly. */
export interface CallerCredentials {
  /** False instead of a token that nobody passed. */
  readonly token?: string | false | undefined;
  readonly headers?: HeadersInput | undefined;
}

/** A token that nobody passed, such as that of `HF_TOKEN`, and the one origin that it is for. */
export interface AmbientToken {
  readonly origin: string;
  readonly token: string;
}

/** Throws a TypeError, which does not show it, unless a token can stand in a header. */
export function requireToken(name: string, token: unknown): void {
  if (typeof token !== 'string') throw argumentTypeError(name, 'a string or false', token);
  if (token !== '' && !NOT_IN_TOKENS.test(token)) return;
  const message = `${name} must be a token alone, without "Bearer", spaces and line breaks`;
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
 * The caller's token and headers, which go to the origin of the source alone, and a token of the
 * environment, which goes to the origin of the Hub alone. None goes over plain `http:`, except to this
 * machine.
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
    if (ambient !== undefined) requireToken('what HF_TOKEN or the token file gives', ambient.token);
    this.#ambient = ambient;
  }

  /** The headers for a request that no other host has redirected. */
  headersFor(url: URL): Headers {
    if (url.protocol === 'http:' && !isLoopback(url)) return new Headers();
    const headers = new Headers(url.origin === this.#sourceOrigin ? this.#headers : []);
    const ambient = this.#ambient;
    if (ambient?.origin === url.origin && !headers.has('authorization')) {
      headers.set('authorization', `Bearer ${ambient.token}`);
    }
    return headers;
  }

  /** A text without the secrets that it may repeat, and without the queries of URLs. */
  redact(text: string): string {
    return this.#spellings()
      .reduce((shown, secret) => cutBefore(shown.replaceAll(secret, '…'), secret), text)
      .replace(/[^\s"']+/g, withoutQuery)
      .replace(/(https?:\/\/)[^\s/@]*@/g, '$1');
  }

  /** The secrets as messages spell them: plain, as in JSON, as in a URL; the longest first. */
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

/** A text without the beginnings of a secret where a name was cut within it. */
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

/**
 * A word of a text, without query and fragment if a URL begins in it. One expression for both would look from
 * each `http://` of a long name to the end of that.
 */
function withoutQuery(word: string): string {
  const begin = word.search(/https?:\/\//);
  if (begin === -1) return word;
  const length = word.slice(begin).search(/[?#]/);
  return length === -1 ? word : word.slice(0, begin + length);
}
