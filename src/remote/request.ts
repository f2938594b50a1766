/** Sends one request: follows redirects itself, so that credentials stay with their origin. */

import { reportsAbsence } from '../errors/absence.js';
import { PASS_TOKEN } from '../errors/advice.js';
import type { RemoteError } from '../errors/errors.js';
import { isCommit } from '../file/hub/ids.js';
import { whenAborted } from '../work/abort-listeners.js';
import { untilAborted } from '../work/until-aborted.js';
import { connectionAdvice } from './connection-advice.js';
import { isProxyLogin } from './node-fetch.js';
import type { PlacedAnswer, RequestInto } from './receiver.js';
import { type RejectedRequest, rejectionOf, transientMessage } from './response-errors.js';
import {
  isMalformedAnswer,
  isRetryableStatus,
  isTransientCause,
  retryAfterOf,
  TransientError,
} from './retries.js';
import { parseHttpUrl } from './safe-urls.js';
import type { Session, Try } from './session.js';

/** The request. */
export interface RequestUrl {
  readonly url: URL;
  /** Whether another host has named the URL, which then gets no credentials. */
  readonly isForeign: boolean;
  /** `Range`, if there is one. */
  readonly range?: string | undefined;
  /** Memory for the range, if it is there already: long ranges are received straight into it. */
  readonly target?: Uint8Array<ArrayBuffer> | undefined;
  /** The file's name for messages. */
  readonly path: string;
  /** Called if `fetch` turns out to hide redirects, and with them the commit; returns the URL to request then. */
  readonly pin?: ((tried: Try) => Promise<URL>) | undefined;
  /** Called once the host has redirected to another one and is done with the request. */
  readonly onRedirected?: (() => void) | undefined;
}

/** An answer other than a redirect. */
export interface Answer {
  readonly response: Response;
  /** As in `PlacedAnswer`: the body comes by this way alone. */
  readonly receive: PlacedAnswer['receive'];
  /** Its URL, after redirects. */
  readonly url: URL;
  /** The version according to the first host, before its redirect. */
  readonly commit: string | undefined;
  readonly linkedTag: string | undefined;
  /** Whether the last request had an `Authorization`. */
  readonly isAuthorized: boolean;
}

/** Most redirects; more are a circle. */
const MAX_REDIRECTS = 10;

/** Bytes to read of an unused body, so that its connection can be reused. */
const MAX_DISCARDED_BYTE_LENGTH = 16_384;

/** Milliseconds to wait for an unused body: another connection takes less. */
const LONGEST_DISCARD_MS = 1000;

const REDIRECTS: readonly number[] = [301, 302, 303, 307, 308];

/**
 * Sends a request and follows redirects. In browsers `fetch` hides and follows redirects itself.
 *
 * @throws TransientError for broken connections, 429 and 5xx
 * @throws RemoteError `SAFETENSORS_UNSAFE_URL`, `SAFETENSORS_BAD_RESPONSE` for bad redirects
 */
export async function request(session: Session, asked: RequestUrl, tried: Try): Promise<Answer> {
  const { path, target } = asked;
  let { url, isForeign } = asked;
  let commit: string | undefined;
  let linkedTag: string | undefined;
  for (let hops = 0; hops <= MAX_REDIRECTS; hops++) {
    const headers = headersFor(session, url, isForeign, asked.range);
    const isAuthorized = headers.has('authorization');
    tried.watched?.asked(url, asked.range);
    const placed = await receive(session, { url, headers, target }, path, tried);
    const response = placed?.response ?? (await send(session, url, headers, path, tried));
    if (response.type === 'opaqueredirect') {
      session.hidesRedirects = true;
      url = (await asked.pin?.(tried)) ?? url;
      continue;
    }
    const answeredBy = response.redirected ? new URL(response.url) : url;
    if (!isForeign && answeredBy.origin === url.origin) {
      const named = response.headers.get('x-repo-commit');
      if (named !== null && isCommit(named)) commit = named;
      linkedTag = response.headers.get('x-linked-etag') ?? linkedTag;
    }
    const { status } = response;
    tried.watched?.answered(answeredBy, status);
    const location = REDIRECTS.includes(status) ? response.headers.get('location') : null;
    if (location === null) {
      if (isRetryableStatus(status))
        throw await passing(session, { response, url, isAuthorized }, path, tried);
      const { receive } = placed ?? {};
      return { response, receive, url: answeredBy, commit, linkedTag, isAuthorized };
    }
    await discard(response, tried);
    const next = redirectTarget(location, url);
    if (typeof next === 'string') {
      const message = `expected a redirect to ${url.protocol} without a user name, found ${next}`;
      throw session.error('SAFETENSORS_UNSAFE_URL', message, { path, url, status });
    }
    if (next.origin === url.origin) await connectionReturned();
    else if (!isForeign) asked.onRedirected?.();
    isForeign ||= next.origin !== url.origin;
    url = next;
  }
  const message = `expected at most ${MAX_REDIRECTS} redirects, found more`;
  throw session.error('SAFETENSORS_BAD_RESPONSE', message, { path, url });
}

/** The target of a redirect, or its problem. */
function redirectTarget(location: string, from: URL): URL | string {
  const next = parseHttpUrl(location, from);
  if (typeof next === 'string') return next;
  return from.protocol === 'https:' && next.protocol === 'http:' ? next.protocol : next;
}

function headersFor(
  session: Session,
  url: URL,
  isForeign: boolean,
  range: string | undefined,
): Headers {
  const headers = isForeign ? new Headers() : session.credentials.headersFor(url);
  if (session.hidesRedirects) {
    // Browsers remove this header alone when they follow a redirect to another host.
    for (const name of [...headers.keys()]) if (name !== 'authorization') headers.delete(name);
  }
  // Some runtimes request compressed bytes, which make ranges meaningless.
  headers.set('accept-encoding', 'identity');
  if (range !== undefined) headers.set('range', range);
  return headers;
}

/** Sends a request whose body has a place; null if `fetch` has to send it. */
async function receive(
  session: Session,
  { target, ...request }: Omit<RequestInto, 'target' | 'signal'> & Pick<RequestUrl, 'target'>,
  path: string,
  { signal }: Try,
): Promise<PlacedAnswer | null> {
  if (target === undefined) return null;
  try {
    return await session.receive({ ...request, target, signal });
  } catch (error) {
    signal.throwIfAborted();
    throw brokenConnection(session, error, { path, url: request.url });
  }
}

async function send(
  session: Session,
  url: URL,
  headers: Headers,
  path: string,
  { signal }: Try,
): Promise<Response> {
  const redirect = session.hidesRedirects ? 'follow' : 'manual';
  const answer = session.send(url, { headers, redirect, signal });
  try {
    return await untilAborted(answer, signal);
  } catch (error) {
    // A `fetch` without support for signals answers in spite of the abort.
    answer.then((late) => late.body?.cancel()).catch(() => {});
    if (signal.aborted) throw error;
    throw brokenConnection(session, error, { path, url });
  }
}

/** Turns a broken connection into a passing failure, or into the final error. */
function brokenConnection(
  session: Session,
  error: unknown,
  context: { readonly path: string; readonly url: URL; readonly note?: string },
): RemoteError | TransientError {
  const { path, url, note = '' } = context;
  const cause = session.innermost(error);
  const isMalformed = isMalformedAnswer(cause);
  const failure = isMalformed ? 'a malformed one' : 'a broken connection';
  const found = `${failure}${note} (${cause.message})`;
  const message = `expected an answer from ${url.host}, found ${found}`;
  const advice = connectionAdvice(url, cause, session.proxyFor(url));
  const end = advice === '' ? '' : `; ${advice}`;
  const makeError = (times: string): RemoteError =>
    session.error('SAFETENSORS_REMOTE_UNAVAILABLE', message + times + end, {
      path,
      url,
      cause,
      status: isProxyLogin(cause) ? 407 : undefined,
    });
  if (!isTransientCause(cause)) return makeError('');
  return new TransientError(makeError, isMalformed ? 'malformed' : 'failed');
}

/**
 * Hands out the pieces of a body as they arrive, the next one once `take` is done. An abort, or an error of `take`,
 * ends the request.
 *
 * @throws TransientError when the connection breaks
 */
export async function readPieces(
  session: Session,
  { response: { body }, url }: Answer,
  path: string,
  { signal, received }: Try,
  take: (piece: Uint8Array<ArrayBuffer>) => Promise<void> | void,
): Promise<void> {
  if (body === null) return;
  const reader = body.getReader();
  const cancel = (): void => void reader.cancel().catch(() => {});
  // One listener for all pieces ends the wait, also with a `fetch` without support for signals.
  const end = whenAborted(signal, cancel);
  let byteLength = 0;
  const broken = (error: unknown): never => {
    signal.throwIfAborted();
    throw brokenConnection(session, error, { path, url, note: ` after ${byteLength} bytes` });
  };
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(broken);
      signal.throwIfAborted();
      if (done) return;
      byteLength += value.byteLength;
      received(value.byteLength);
      await take(value);
    }
  } catch (error) {
    cancel();
    throw error;
  } finally {
    end();
  }
}

/**
 * Waits for a body that arrives in its place, and calls back with the length of its pieces.
 *
 * @throws TransientError when the connection breaks
 */
export async function awaitPlaced(
  session: Session,
  { receive, url }: Answer,
  path: string,
  { signal, received }: Try,
  arrived: (byteLength: number) => void,
): Promise<void> {
  let total = 0;
  const count = (byteLength: number): void => {
    total += byteLength;
    received(byteLength);
    arrived(byteLength);
  };
  try {
    await receive?.(count);
  } catch (error) {
    signal.throwIfAborted();
    throw brokenConnection(session, error, { path, url, note: ` after ${total} bytes` });
  }
}

/** The error for an answer that refuses the request. Reads its body, to keep the connection. */
export async function rejection(
  session: Session,
  { response, url, isAuthorized }: Answer,
  asked: Pick<RejectedRequest, 'isOnHub' | 'isForApi'> & {
    readonly path: string;
    readonly origin: string;
  },
  tried: Try,
): Promise<RemoteError> {
  await discard(response, tried);
  await connectionReturned();
  const { status, headers } = response;
  const { path, isOnHub, isForApi, origin } = asked;
  const isRedirected = url.origin !== origin;
  const { code, message, advice, isMissing } = rejectionOf({
    status,
    errorCode: headers.get('x-error-code') ?? '',
    errorText: headers.get('x-error-message') ?? '',
    isOnHub,
    isForApi,
    isAuthorized,
    isRedirected,
  });
  const error = session.error(code, message, { path, url, status, advice });
  return isMissing ? reportsAbsence(error, 'source') : error;
}

async function passing(
  session: Session,
  { response, url, isAuthorized }: Pick<Answer, 'response' | 'url' | 'isAuthorized'>,
  path: string,
  tried: Try,
): Promise<TransientError> {
  await discard(response, tried);
  const { status, headers } = response;
  const retryAfter = retryAfterOf(headers, Date.now());
  const makeError = (note: string): RemoteError => {
    const message = transientMessage({ status, isAuthorized, retryAfter }, note);
    const advice = status === 429 && !isAuthorized ? [PASS_TOKEN] : [];
    return session.error('SAFETENSORS_REMOTE_UNAVAILABLE', message, { path, url, status, advice });
  };
  return new TransientError(makeError, 'failed', retryAfter);
}

/**
 * Waits for a turn of the event loop. Node needs that long to reuse the connection of a finished answer: an earlier
 * request opens another one.
 */
async function connectionReturned(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve));
}

/** Reads the rest of a short body, so that the connection can be used again; cancels a longer one. */
export async function discard({ body, headers }: Response, { signal }: Try): Promise<void> {
  if (body === null) return;
  const reader = body.getReader();
  let left = MAX_DISCARDED_BYTE_LENGTH;
  if (Number(headers.get('content-length') ?? 0) > left) left = -1;
  const cancel = (): void => void reader.cancel().catch(() => {});
  const timer = setTimeout(cancel, LONGEST_DISCARD_MS);
  try {
    while (left >= 0) {
      const { done, value } = await untilAborted(reader.read(), signal);
      if (done) return;
      left -= value.byteLength;
    }
  } catch {
    // The bytes are unused, so ignore errors.
  } finally {
    clearTimeout(timer);
  }
  cancel();
}
