/** Decides about retries: which failures, how often, and when. */

import type { RemoteError } from '../errors/errors.js';
import { untilAborted } from '../work/until-aborted.js';
import { type ConnectionCause, isProxyLogin } from './node-fetch.js';

/** Most tries of a request. */
const MAX_TRIES = 5;

/** Most stalls of a request: each has cost long enough. */
const MAX_STALLS = 2;

/** Most malformed answers to a request: one may come from a connection that an earlier answer has left out of step. */
const MAX_MALFORMED = 2;

/** Bytes of a body after which tries count from the start again: a long body may break more often. */
const FRESH_START_BYTE_LENGTH = 1 << 20;

/** The first wait; each following wait is twice as long. */
export const FIRST_DELAY_MS = 300;
const LONGEST_DELAY_MS = 10_000;

/** Longest wait; if a server asks for more, the call fails and says so. */
const LONGEST_RETRY_AFTER_MS = 60_000;

/** Codes of connections that stay broken. */
const LASTING =
  /^(?:ENOTFOUND|CERT_|ERR_TLS_|ERR_SSL_|ERR_INVALID_|UND_ERR_INVALID_|UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_)/;

/** Messages of Node's `fetch`, without a code, for URLs that it never requests. */
const LASTING_MESSAGE = /^(?:bad port|unknown scheme)$/;

/**
 * Codes for bytes that break the rules of HTTP or of the body's compression. A truncated answer is a broken connection.
 */
const MALFORMED =
  /^(?:HPE_(?!INVALID_EOF_STATE$)|UND_ERR_(?:HEADERS_OVERFLOW|RES_CONTENT_LENGTH_MISMATCH)$|Z_|ERR_(?:_ERROR|BROTLI|ZSTD|ZLIB)_)/;

/** The same without a code: `fetch` of Node 24 and newer gives it only in the message. */
const MALFORMED_MESSAGE = /does not match the HTTP\/1\.1 protocol \((?!Invalid EOF state)/;

/** The kinds of failures, which are counted separately. */
type FailureKind = 'failed' | 'stalled' | 'malformed';

/** A failure that may pass until the next try. */
export class TransientError {
  /** Makes the error to throw without a next try; `note` ends its message. */
  readonly makeError: (note: string) => RemoteError;
  readonly kind: FailureKind;
  /** Milliseconds to wait, as the server asks. */
  readonly retryAfter: number | undefined;

  /** Without `retryAfter` the client chooses the wait. */
  constructor(makeError: (note: string) => RemoteError, kind: FailureKind, retryAfter?: number) {
    this.makeError = makeError;
    this.kind = kind;
    this.retryAfter = retryAfter;
  }
}

/** Statuses of servers that lack a function (501, 505), and of a network that demands a login (511). */
const LASTING_STATUSES: readonly number[] = [501, 505, 511];

/** Whether an answer with this status may change soon. */
export function isRetryableStatus(status: number): boolean {
  return status === 408 || status === 429 || (status >= 500 && !LASTING_STATUSES.includes(status));
}

/** Whether a connection that failed for this cause may work soon. */
export function isTransientCause(cause: ConnectionCause): boolean {
  const { code, message } = cause;
  if (isProxyLogin(cause)) return false;
  return code === undefined ? !LASTING_MESSAGE.test(message) : !LASTING.test(code);
}

/** Whether the server has sent something that is not a valid HTTP answer. */
export function isMalformedAnswer({ code, message }: ConnectionCause): boolean {
  return code === undefined ? MALFORMED_MESSAGE.test(message) : MALFORMED.test(code);
}

/**
 * The milliseconds that an answer asks to wait: `Retry-After` in seconds or as a date, else the Hub's `RateLimit`,
 * such as `"api";r=0;t=55`. Undefined without these.
 */
export function retryAfterOf(headers: Headers, now: number): number | undefined {
  const text = headers.get('retry-after')?.trim();
  if (text !== undefined && /^\d+$/.test(text)) return Number(text) * 1000;
  const date = Date.parse(text ?? '');
  if (!Number.isNaN(date)) return Math.max(date - now, 0);
  const [, seconds] = /;\s*r=0\s*;\s*t=(\d+)/.exec(headers.get('ratelimit') ?? '') ?? [];
  return seconds === undefined ? undefined : Number(seconds) * 1000;
}

/**
 * The milliseconds before the next try, or null if the server asks for too long a wait. `random`, from 0 to 1,
 * spreads the retries of clients that failed together.
 */
export function retryDelay(
  tries: number,
  retryAfter: number | undefined,
  firstDelay: number,
  random: number,
): number | null {
  if (retryAfter !== undefined && retryAfter > LONGEST_RETRY_AFTER_MS) return null;
  const delay = Math.min(firstDelay * 2 ** (tries - 1), LONGEST_DELAY_MS);
  return (retryAfter ?? 0) + delay * (0.5 + random / 2);
}

/** Resolves after a time, or rejects with the signal's reason; leaves no timer. */
async function pause(milliseconds: number, signal: AbortSignal): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const elapsed = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  try {
    await untilAborted(elapsed, signal);
  } finally {
    clearTimeout(timer);
  }
}

/** The tries of one request. */
export class Tries {
  readonly #signal: AbortSignal;
  readonly #firstDelay: number;
  readonly #count: Record<FailureKind, number> = {
    failed: 0,
    stalled: 0,
    malformed: 0,
  };

  /** The signal ends the waits between tries; the first wait takes about `firstDelay` ms. */
  constructor(signal: AbortSignal, firstDelay: number) {
    this.#signal = signal;
    this.#firstDelay = firstDelay;
  }

  /**
   * Waits for the next try; throws the error after the last try, and any other error at once. Counts tries from the
   * start after one that got far: a long body may break more often than a short one.
   */
  async afterFailure(failure: unknown, keptByteLength: number): Promise<void> {
    if (!(failure instanceof TransientError)) throw failure;
    const count = this.#count;
    if (keptByteLength >= FRESH_START_BYTE_LENGTH) {
      count.failed = count.stalled = count.malformed = 0;
    }
    count[failure.kind]++;
    const { failed, stalled, malformed } = count;
    const tries = failed + stalled + malformed;
    const isLast = tries >= MAX_TRIES || stalled >= MAX_STALLS || malformed >= MAX_MALFORMED;
    if (isLast) throw failure.makeError(`, ${tries} times`);
    const { retryAfter } = failure;
    const delay = retryDelay(tries, retryAfter, this.#firstDelay, Math.random());
    if (delay === null) {
      throw failure.makeError(
        `; the server asks to wait ${Math.ceil(Number(retryAfter) / 1000)} s`,
      );
    }
    await pause(delay, this.#signal);
  }
}
