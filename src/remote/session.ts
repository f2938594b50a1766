/** What all requests of one source share: `fetch`, credentials, an end. */

import { FileClosedError, RemoteError, type RemoteErrorCode } from '../errors/errors.js';
import type { FoundFormat } from '../errors/found-format.js';
import type { RequestChannel } from '../file/hub/settings.js';
import type { Credentials } from './credentials.js';
import { redactError } from './redacted-errors.js';
import { WatchedTry } from './request-event.js';
import { FIRST_DELAY_MS, PassingFailure, Tries } from './retries.js';
import { shownUrl } from './safe-urls.js';
import { withScope } from './scope.js';
import { LEAST_BYTE_LENGTH, STALL_MS, StallWatch } from './stall-watch.js';

/** The `fetch` of the runtime, or one of the caller's that does the same. */
export type Fetch = typeof globalThis.fetch;

/** Causes of causes that are looked at: a chain can be a circle. */
const MAX_CAUSES = 10;

/** How requests are sent. */
export interface SessionOptions {
  readonly fetch: Fetch;
  readonly credentials: Credentials;
  /** Name of the variable that names a proxy for a URL, where `fetch` is the runtime's own. */
  readonly proxyFor?: ((url: URL) => string | undefined) | undefined;
  /** Where each try is announced when it has ended. */
  readonly requestChannel?: RequestChannel | undefined;
  /** For tests: milliseconds until a request has stalled. */
  readonly stallMs?: number | undefined;
  /** For tests: milliseconds before the first retry. */
  readonly firstDelayMs?: number | undefined;
}

/** One try of a request. */
export interface Try {
  /** Ends with the caller's signal, with the session, and when the try stalls. */
  readonly signal: AbortSignal;
  /** Counts what has arrived, which keeps the try from stalling. */
  received(byteLength: number): void;
  /** Whether the try is at its end because it has stalled. */
  isStalled(): boolean;
  /** Collects the facts of the try, if a program watches requests. */
  readonly watched: WatchedTry | undefined;
}

/** What an error is about. */
export interface FailureContext {
  /** The file's name for messages. */
  readonly path: string;
  /** The URL that was asked last. */
  readonly url?: URL | undefined;
  readonly status?: number | undefined;
  /** What came instead of the file. */
  readonly foundFormat?: FoundFormat | undefined;
  readonly cause?: unknown;
}

/** Sends requests until it is closed. */
export class Session {
  readonly credentials: Credentials;
  /** Whether `fetch` hides where redirects lead, as that of browsers does. Known after the first one. */
  hidesRedirects = false;
  /** As in the options. */
  readonly proxyFor: (url: URL) => string | undefined;
  readonly #fetch: Fetch;
  readonly #requestChannel: RequestChannel | undefined;
  readonly #stallMs: number;
  readonly #firstDelayMs: number;
  /** Ends what is under way, one function for each. */
  readonly #ends = new Set<() => void>();
  #isClosed = false;

  /** The session is open. */
  constructor(options: SessionOptions) {
    const { fetch, credentials, proxyFor, requestChannel, stallMs, firstDelayMs } = options;
    this.credentials = credentials;
    this.proxyFor = proxyFor ?? (() => undefined);
    this.#fetch = fetch;
    this.#requestChannel = requestChannel;
    this.#stallMs = stallMs ?? STALL_MS;
    this.#firstDelayMs = firstDelayMs ?? FIRST_DELAY_MS;
  }

  /** Calls `fetch` without `this`, which that of browsers refuses. */
  async send(...request: Parameters<Fetch>): Promise<Response> {
    const send = this.#fetch;
    return await send(...request);
  }

  /** Ends what is under way with a FileClosedError, and refuses more. */
  close(): void {
    this.#isClosed = true;
    for (const end of [...this.#ends]) end();
  }

  /** An error, to be thrown as it is or by `request`. */
  error(code: RemoteErrorCode, message: string, context: FailureContext): RemoteError {
    const { path, url, status, foundFormat, cause } = context;
    return new RemoteError(code, message, {
      path,
      status,
      foundFormat,
      url: url && shownUrl(url),
      cause: cause === undefined ? undefined : this.innermost(cause),
    });
  }

  /**
   * The error, without what a server may have repeated of the credentials. `request` does this itself;
   * code that reads an answer passes its own errors through here.
   */
  withoutSecrets(error: unknown): unknown {
    return redactError(error, this.credentials);
  }

  /** Message and code of the innermost cause: errors of `fetch` may have URLs and headers as properties. */
  innermost(cause: unknown): Error & { code?: string } {
    let inner: { message?: unknown; cause?: unknown; code?: unknown } = Object(cause);
    for (let depth = 0; depth < MAX_CAUSES; depth++) {
      if (typeof inner.cause !== 'object' || inner.cause === null) break;
      inner = inner.cause;
    }
    // The error of several addresses that were tried has a code and no message.
    const message = inner.message || inner.code || cause;
    const error = new Error(String(message));
    return typeof inner.code === 'string' ? Object.assign(error, { code: inner.code }) : error;
  }

  /**
   * Sends a request, again after failures that may pass, until one try succeeds. `kept` tells how many bytes
   * the next try will not ask for again.
   *
   * @throws FileClosedError `SAFETENSORS_FILE_CLOSED` when the session is closed before or meanwhile; the
   *   signal's reason; what the last try has thrown
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

  #stalled(path: string): PassingFailure {
    const message = `expected ${LEAST_BYTE_LENGTH} bytes in ${this.#stallMs / 1000} s, found fewer`;
    return new PassingFailure(
      (note) => this.error('SAFETENSORS_REMOTE_STALLED', message + note, { path }),
      'stalled',
    );
  }
}
