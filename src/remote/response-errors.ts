/** Turns statuses and the Hub's error names into codes with advice. */

import { type Advice, PASS_CREDENTIALS, PASS_TOKEN } from '../errors/advice.js';
import { quoteName, type RemoteErrorCode } from '../errors/errors.js';
import { PROXY_LOGIN_ADVICE } from './node-fetch.js';

/** An answer without the requested bytes. */
export interface RejectedRequest {
  readonly status: number;
  /** `X-Error-Code` of the Hub, and its `X-Error-Message`; empty if missing. */
  readonly errorCode: string;
  readonly errorText: string;
  /** Whether the source is on the Hub, which answers 401 also for repositories that do not exist. */
  readonly isOnHub: boolean;
  /** Whether the request was for the Hub's API, which lists repositories. */
  readonly isForApi?: boolean | undefined;
  /** Whether the last request had an `Authorization`. */
  readonly isAuthorized: boolean;
  /** Whether another host than the source's has answered, after a redirect. */
  readonly isRedirected: boolean;
}

/** A code, and the end of the message: the finding and advice. */
export interface Rejection {
  readonly code: RemoteErrorCode;
  readonly message: string;
  readonly advice: readonly Advice[];
  /** Whether the server has no such file. */
  readonly isMissing: boolean;
}

const HUB_CODES: Readonly<Record<string, RemoteErrorCode>> = {
  ['RepoNotFound']: 'SAFETENSORS_REPOSITORY_NOT_FOUND',
  ['RevisionNotFound']: 'SAFETENSORS_REVISION_NOT_FOUND',
  ['EntryNotFound']: 'SAFETENSORS_REMOTE_NOT_FOUND',
  ['GatedRepo']: 'SAFETENSORS_GATED_REPOSITORY',
};

const STATUS_CODES: Readonly<Record<number, RemoteErrorCode>> = {
  401: 'SAFETENSORS_UNAUTHORIZED',
  403: 'SAFETENSORS_FORBIDDEN',
  404: 'SAFETENSORS_REMOTE_NOT_FOUND',
  410: 'SAFETENSORS_REMOTE_NOT_FOUND',
  511: 'SAFETENSORS_REMOTE_UNAVAILABLE',
};

/** Further advice. */
const STATUS_ADVICE: Readonly<Record<number, string>> = {
  407: PROXY_LOGIN_ADVICE,
  511: 'the network on the way wants a login: open any page in a browser',
};

const NO_API_ADVICE =
  'the server has no API that lists the repository, or no such repository; a mirror (HF_ENDPOINT) without an API ' +
  'serves files by their names, such as hf://org/name/model.safetensors';

/** The Hub's message for an unknown token. */
const BAD_TOKEN = /invalid (?:credentials|username or password|token)/i;

/** An answer that may change later. */
interface TransientAnswer extends Pick<RejectedRequest, 'status' | 'isAuthorized'> {
  /** Milliseconds to wait, as the server asks; undefined without a wish. */
  readonly retryAfter: number | undefined;
}

/** The end of the message after the last try; `note` tells the number of tries, or the reason against more. */
export function transientMessage(
  { status, isAuthorized, retryAfter }: TransientAnswer,
  note: string,
): string {
  if (status !== 429) return `expected 206 Partial Content, found status ${status}${note}`;
  const token = isAuthorized
    ? ''
    : `, or ${PASS_TOKEN.text}, which raises the limit on the Hub and others`;
  const wait =
    retryAfter === undefined
      ? 'the wait is unknown (no Retry-After)'
      : 'retries wait as long as Retry-After asks, up to a minute';
  return `found status 429, the rate limit of the server${note}; ${wait}; call again later${token}`;
}

/** Statuses of servers that have no such addresses, or no such methods. */
const ABSENT: readonly number[] = [404, 405, 410, 501];

/**
 * Whether an answer is that of a mirror which serves files but has no API: the Hub names its errors. It is the same as
 * that of a mirror without the repository.
 */
export function isWithoutApi({
  status,
  errorCode,
  isForApi,
}: Pick<RejectedRequest, 'status' | 'errorCode' | 'isForApi'>): boolean {
  return isForApi === true && errorCode === '' && ABSENT.includes(status);
}

function codeOf(request: RejectedRequest): RemoteErrorCode {
  const { status, errorCode, errorText, isOnHub } = request;
  if (Object.hasOwn(HUB_CODES, errorCode)) return HUB_CODES[errorCode] as RemoteErrorCode;
  if (isWithoutApi(request)) return 'SAFETENSORS_REMOTE_NOT_FOUND';
  const isBadToken = BAD_TOKEN.test(errorText);
  if (status === 401 && isOnHub && !isBadToken) return 'SAFETENSORS_REPOSITORY_NOT_FOUND';
  return STATUS_CODES[status] ?? 'SAFETENSORS_BAD_RESPONSE';
}

/** The advice of requests without credentials. */
const TOKEN_ADVICE: { readonly [Code in RemoteErrorCode]?: readonly Advice[] } = {
  SAFETENSORS_REPOSITORY_NOT_FOUND: [PASS_TOKEN],
  SAFETENSORS_GATED_REPOSITORY: [PASS_TOKEN],
  SAFETENSORS_UNAUTHORIZED: [PASS_CREDENTIALS],
};

function textOf(code: RemoteErrorCode, request: RejectedRequest): string {
  const { isAuthorized, isRedirected, isOnHub } = request;
  switch (code) {
    case 'SAFETENSORS_REPOSITORY_NOT_FOUND':
      return isAuthorized
        ? 'no such repository, or the token has no access to it'
        : `no such repository, or a private one: ${PASS_TOKEN.text}`;
    case 'SAFETENSORS_REVISION_NOT_FOUND':
      return 'the repository has no such branch, tag or commit; the default is main';
    case 'SAFETENSORS_REMOTE_NOT_FOUND':
      if (isWithoutApi(request)) return NO_API_ADVICE;
      return isOnHub
        ? 'the repository has no such file; its page lists all files'
        : 'no such file; check the URL';
    case 'SAFETENSORS_GATED_REPOSITORY':
      return isAuthorized
        ? "ask for access on the repository's page; the token's account has none"
        : `ask for access on the repository's page, then ${PASS_TOKEN.text} of that account`;
    case 'SAFETENSORS_UNAUTHORIZED':
      return isAuthorized
        ? 'the server does not accept the token'
        : `${PASS_CREDENTIALS.text}, which go only to https: URLs and this machine`;
    case 'SAFETENSORS_FORBIDDEN':
      return isRedirected
        ? 'the URL that the server redirects to is refused, in two tries'
        : 'the credentials give no access, or a presigned URL has expired';
    default:
      return STATUS_ADVICE[request.status] ?? 'expected 206 Partial Content';
  }
}

/** The code and message for an error answer. */
export function rejectionOf(request: RejectedRequest): Rejection {
  const code = codeOf(request);
  const { status, errorText } = request;
  const note = errorText === '' ? '' : ` (${quoteName(errorText)})`;
  const message = `found status ${status}${note}: ${textOf(code, request)}`;
  const advice = request.isAuthorized ? [] : (TOKEN_ADVICE[code] ?? []);
  return { code, message, advice, isMissing: code === 'SAFETENSORS_REMOTE_NOT_FOUND' };
}
