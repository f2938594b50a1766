/** The session of one source: all its requests share `fetch`, credentials and an end. */

import type { Advice } from '../errors/advice.js';
import { FileClosedError, RemoteError, type RemoteErrorCode } from '../errors/errors.js';
import type { FoundFormat } from '../errors/found-format.js';
import type { RequestChannel } from '../file/hub/settings.js';
import { withScope } from '../work/scope.js';
import type { Credentials } from './credentials.js';
import type { PlacedAnswer, Receiver, RequestInto } from './receiver.js';
import { redactError } from './redacted-errors.js';
import { WatchedTry } from './request-event.js';
import { FIRST_DELAY_MS, TransientError, Tries } from './retries.js';
import { shownUrl } from './safe-urls.js';
import { LEAST_BYTE_LENGTH, STALL_MS, StallWatch } from './stall-watch.js';

/** The `fetch` of the runtime, or a replacement of the caller's. */
export type Fetch = typeof globalThis.fetch;

/** Most causes of causes to look at: a chain can be circular. */
const MAX_CAUSES = 10;

/** Settings for sending requests. */
interface SessionOptions {
  readonly fetch: Fetch;
  readonly credentials: Credentials;
  /** Name of the variable that names a proxy for a URL, where `fetch` is the runtime's own. */
  readonly proxyFor?: ((url: URL) => string | undefined) | undefined;
  /** Channel for an event at the end of each try. */
  readonly requestChannel?: RequestChannel | undefined;
  /** Receives long ranges in place of `fetch`, where `fetch` is the runtime's own. */
  readonly receiver?: Receiver | undefined;
  /** For tests: milliseconds until a request has stalled. */
  readonly stallMs?: number | undefined;
  /** For tests: milliseconds before the first retry. */
  readonly firstDelayMs?: number | undefined;
}

/** One try of a request. */
export interface Try {
  /** Aborted with the caller's signal, with the session, and when the try stalls. */
  readonly signal: AbortSignal;
  /** Counts arrived bytes, which keep the try from stalling. */
  received(byteLength: number): void;
  /** Whether the try ended because it stalled. */
  isStalled(): boolean;
  /** Collects the facts of the try, if a program watches requests. */
  readonly watched: WatchedTry | undefined;
}

/** The subject of an error. */
export interface FailureContext {
  /** The file's name for messages. */
  readonly path: string;
  /** The last URL. */
  readonly url?: URL | undefined;
  readonly status?: number | undefined;
  /** The answer instead of the file. */
  readonly foundFormat?: FoundFormat | undefined;
  readonly advice?: readonly Advice[] | undefined;
  readonly cause?: unknown;
}

/** Sends requests until it is closed. */
export class Session {
  readonly credentials: Credentials;
  /** Whether `fetch` hides the targets of redirects, as in browsers. Known after the first redirect. */
  hidesRedirects = false;
  /** As in the options. */
  readonly proxyFor: (url: URL) => string | undefined;
  readonly #fetch: Fetch;
  readonly #requestChannel: RequestChannel | undefined;
  readonly #receiver: Receiver | undefined;
  /** Origins that have answered with a range of a known length; false once the receiver has left them to `fetch`. */
  readonly #plainOrigins = new Map<string, boolean>();
  readonly #stallMs: number;
  readonly #firstDelayMs: number;
  /** Functions that end the running tries. */
  readonly #ends = new Set<() => void>();
  #isClosed = false;

  /** Opens the session. */
  constructor(options: SessionOptions) {
    const { fetch, credentials, proxyFor, requestChannel, receiver } = options;
    const { stallMs, firstDelayMs } = options;
    this.credentials = credentials;
    this.proxyFor = proxyFor ?? (() => undefined);
    this.#fetch = fetch;
    this.#requestChannel = requestChannel;
    this.#receiver = receiver;
    this.#stallMs = stallMs ?? STALL_MS;
    this.#firstDelayMs = firstDelayMs ?? FIRST_DELAY_MS;
  }

  /** Calls `fetch` without `this`, which browsers refuse. */
  async send(url: URL, init: Parameters<Fetch>[1]): Promise<Response> {
    const send = this.#fetch;
    const response = await send(url.href, init);
    const { status, headers, redirected } = response;
    const isPlain = status === 206 && headers.has('content-length') && !redirected;
    if (isPlain && !this.#plainOrigins.has(url.origin)) this.#plainOrigins.set(url.origin, true);
    return response;
  }

  /**
   * Sends a request by the receiver. Null if `fetch` has to send it: it makes the first request to every host, since
   * it knows ports and hosts that must not be asked, and says best why one cannot be reached.
   */
  async receive(request: RequestInto): Promise<PlacedAnswer | null> {
    const { url, target } = request;
    const receiver = this.#receiver;
    const may =
      receiver !== undefined &&
      target.byteLength >= receiver.leastByteLength &&
      this.#plainOrigins.get(url.origin) === true &&
      this.proxyFor(url) === undefined &&
      receiver.mayRequest();
    if (!may) return null;
    const answer = await receiver.ask(request);
    if (answer === null) this.#plainOrigins.set(url.origin, false);
    return answer;
  }

  /** Ends all requests with a FileClosedError and refuses new ones. */
  close(): void {
    this.#isClosed = true;
    for (const end of [...this.#ends]) end();
    this.#receiver?.close();
  }

  /** Makes an error, to throw directly or from `request`. */
  error(code: RemoteErrorCode, message: string, context: FailureContext): RemoteError {
    const { path, url, status, foundFormat, advice, cause } = context;
    return new RemoteError(code, message, {
      path,
      status,
      foundFormat,
      advice,
      url: url && shownUrl(url),
      cause: cause === undefined ? undefined : this.innermost(cause),
    });
  }

  /**
   * Removes credentials that a server may have repeated from an error. `request` does this itself; code that reads an
   * answer passes its own errors through here.
   */
  withoutSecrets(error: unknown): unknown {
    return redactError(error, this.credentials);
  }

  /** Message and code of the innermost cause: errors of `fetch` may carry URLs and headers as properties. */
  innermost(cause: unknown): Error & { code?: string } {
    let inner: { message?: unknown; cause?: unknown; code?: unknown } = Object(cause);
    for (let depth = 0; depth < MAX_CAUSES; depth++) {
      if (typeof inner.cause !== 'object' || inner.cause === null) break;
      inner = inner.cause;
    }
    // The error for several tried addresses has a code and no message.
    const message = inner.message || inner.code || cause;
    const error = new Error(String(message));
    return typeof inner.code === 'string' ? Object.assign(error, { code: inner.code }) : error;
  }

  /**
   * Sends a request, and retries after passing failures, until a try succeeds. `kept` returns the bytes that the next
   * try skips.
   *
   * @throws FileClosedError `SAFETENSORS_FILE_CLOSED` when the session is closed before or meanwhile; the signal's
   *   reason; the error of the last try
   */
  async request<Result>(
    path: string,
    signal: AbortSignal | undefined,
    once: (tried: Try) => Promise<Result>,
    kept: () => number = () => 0,
  ): Promise<Result> {
    const closed = new AbortController();
    const end = (): void => closed.abort(new FileClosedError({ path }));
    if (this.#isClosed) end();
    this.#ends.add(end);
    try {
      return await withScope([closed.signal, signal], async (scope) => {
        const tries = new Tries(scope.signal, this.#firstDelayMs);
        for (let number = 1; ; number++) {
          const watched = this.#watchedTry(number);
          const watch = new StallWatch(this.#stallMs);
          const before = kept();
          try {
            const result = await withScope([scope.signal, watch.signal], ({ signal }) =>
              once({
                signal,
                received: (byteLength) => {
                  watch.received(byteLength);
                  watched?.received(byteLength);
                },
                isStalled: () => watch.signal.aborted,
                watched,
              }),
            );
            watched?.end(undefined, (error) => error);
            return result;
          } catch (error) {
            const failure = watch.signal.aborted ? this.#stalled(path) : error;
            watched?.end(failure, (failed) => this.withoutSecrets(failed));
            await tries.afterFailure(failure, kept() - before);
          } finally {
            watch.end();
          }
        }
      });
    } catch (error) {
      throw this.withoutSecrets(error);
    } finally {
      this.#ends.delete(end);
    }
  }

  #watchedTry(number: number): WatchedTry | undefined {
    const channel = this.#requestChannel;
    return channel?.hasSubscribers === true ? new WatchedTry(channel, number) : undefined;
  }

  #stalled(path: string): TransientError {
    const message = `expected ${LEAST_BYTE_LENGTH} bytes in ${this.#stallMs / 1000} s, found fewer`;
    return new TransientError(
      (note) => this.error('SAFETENSORS_REMOTE_STALLED', message + note, { path }),
      'stalled',
    );
  }
}
