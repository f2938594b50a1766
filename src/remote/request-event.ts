/** What programs can watch of remote requests: an event for each try. */

import type { RequestChannel } from '../file/hub/settings.js';
import { PassingFailure } from './retries.js';
import { shownUrl } from './safe-urls.js';

/**
 * One try of a request that has ended, as Node's channel `safetensors-mmap:request` of `node:diagnostics_channel`
 * publishes it. Redirects belong to the try. URLs have no user name, password, query or fragment, and no member has a
 * token. Times are in milliseconds.
 */
export interface RequestEvent {
  /** The URL that was asked first. */
  readonly url: string;
  /** The URL that answered, after redirects; null without an answer. */
  readonly answeredBy: string | null;
  /** The header `Range`, such as `bytes=0-99999`; null for a whole file. */
  readonly range: string | null;
  /** Status of the answer; null without one. */
  readonly status: number | null;
  /** Bytes of the body that have arrived. */
  readonly receivedByteLength: number;
  /** When the try began, as `performance.now()` counts. */
  readonly startTime: number;
  /** From the start to the headers of the answer; null without one. */
  readonly headersDuration: number | null;
  /** From the start to the end of the try. */
  readonly duration: number;
  /** 1 for the first try; a try that failed may be followed by another one. */
  readonly try: number;
  /** Why the try failed, an `AbortError` for an abort; null when it succeeded. */
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
  #receivedByteLength = 0;

  /** The try begins. */
  constructor(channel: RequestChannel, number: number) {
    this.#channel = channel;
    this.#number = number;
  }

  /** A request is sent. The first one counts. */
  asked(url: URL, range: string | undefined): void {
    if (this.#url !== undefined) return;
    this.#url = url;
    this.#range = range ?? null;
  }

  /** The headers of an answer are there. The last one counts. */
  answered(url: URL, status: number): void {
    this.#answer = { url, status, at: performance.now() };
  }

  /** Counts bytes of the body. */
  received(byteLength: number): void {
    this.#receivedByteLength += byteLength;
  }

  /**
   * Publishes the event; nothing when no request was sent. `withoutSecrets` cleans the error, which is undefined after
   * a success.
   */
  end(error: unknown, withoutSecrets: (error: unknown) => unknown): void {
    if (this.#url === undefined) return;
    const now = performance.now();
    const failure = error instanceof PassingFailure ? error.makeError('') : error;
    const answer = this.#answer;
    const event: RequestEvent = {
      url: shownUrl(this.#url),
      answeredBy: answer === undefined ? null : shownUrl(answer.url),
      range: this.#range,
      status: answer?.status ?? null,
      receivedByteLength: this.#receivedByteLength,
      startTime: this.#startTime,
      headersDuration: answer === undefined ? null : answer.at - this.#startTime,
      duration: now - this.#startTime,
      try: this.#number,
      error: failure === undefined ? null : withoutSecrets(failure),
    };
    this.#channel.publish(event);
  }
}
