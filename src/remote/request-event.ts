/** Events for programs that watch remote requests: one for each try. */

import type { RequestChannel } from '../file/hub/settings.js';
import { TransientError } from './retries.js';
import { shownUrl } from './safe-urls.js';

/**
 * One try of a request that has ended, as Node's channel `safetensors-mmap:request` of `node:diagnostics_channel`
 * publishes it. Redirects belong to the try. URLs have no user name, password, query or fragment, and no member has a
 * token. Times are in milliseconds.
 */
export interface RequestEvent {
  /** The first URL. */
  readonly url: string;
  /** The URL that answered, after redirects; null without an answer. */
  readonly answeredBy: string | null;
  /** The header `Range`, such as `bytes=0-99999`; null for a whole file. */
  readonly range: string | null;
  /** Status of the answer; null without one. */
  readonly status: number | null;
  /** Arrived bytes of the body. */
  readonly downloadedBytes: number;
  /** Start of the try, on the clock of `performance.now()`. */
  readonly startTime: number;
  /** From the start to the headers of the answer; null without one. */
  readonly headersDuration: number | null;
  /** From the start to the end of the try. */
  readonly duration: number;
  /** 1 for the first try; a failed try may be followed by another. */
  readonly try: number;
  /** The failure, an `AbortError` for an abort; null after a success. */
  readonly error: unknown;
}

/** Collects the facts of one try. */
export class WatchedTry {
  readonly #channel: RequestChannel;
  readonly #number: number;
  readonly #startTime = performance.now();
  #url: URL | undefined;
  #range: string | null = null;
  #answer: { readonly url: URL; readonly status: number; readonly at: number } | undefined;
  #downloadedBytes = 0;

  /** Starts the clock. */
  constructor(channel: RequestChannel, number: number) {
    this.#channel = channel;
    this.#number = number;
  }

  /** Notes a sent request. The first one counts. */
  asked(url: URL, range: string | undefined): void {
    if (this.#url !== undefined) return;
    this.#url = url;
    this.#range = range ?? null;
  }

  /** Notes the headers of an answer. The last one counts. */
  answered(url: URL, status: number): void {
    this.#answer = { url, status, at: performance.now() };
  }

  /** Counts bytes of the body. */
  received(byteLength: number): void {
    this.#downloadedBytes += byteLength;
  }

  /**
   * Publishes the event, unless no request was sent. `withoutSecrets` cleans the error, which is undefined after a
   * success.
   */
  end(error: unknown, withoutSecrets: (error: unknown) => unknown): void {
    if (this.#url === undefined) return;
    const now = performance.now();
    const failure = error instanceof TransientError ? error.makeError('') : error;
    const answer = this.#answer;
    const event: RequestEvent = {
      url: shownUrl(this.#url),
      answeredBy: answer === undefined ? null : shownUrl(answer.url),
      range: this.#range,
      status: answer?.status ?? null,
      downloadedBytes: this.#downloadedBytes,
      startTime: this.#startTime,
      headersDuration: answer === undefined ? null : answer.at - this.#startTime,
      duration: now - this.#startTime,
      try: this.#number,
      error: failure === undefined ? null : withoutSecrets(failure),
    };
    this.#channel.publish(event);
  }
}
