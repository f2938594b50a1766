/** Advice on certificates and proxies from errors of Node's `fetch`. Browsers hide these causes from pages. */

import { isLoopback } from './safe-urls.js';

/** The innermost cause of a failure. */
export interface ConnectionCause {
  readonly code?: string;
  readonly message: string;
}

/** Codes for a certificate from an unknown authority. */
const UNKNOWN_AUTHORITY =
  /^(?:DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(?:VERIFY_LEAF_SIGNATURE|GET_ISSUER_CERT(?:_LOCALLY)?)|CERT_UNTRUSTED)$/;

const CODES: readonly (readonly [RegExp, string])[] = [
  [
    UNKNOWN_AUTHORITY,
    'the certificate has an unknown authority: if it belongs to your company or you, start Node with ' +
      'NODE_EXTRA_CA_CERTS=<PEM file of that authority>, or with --use-system-ca (Node 22.15 and later)',
  ],
  [/^CERT_(?:HAS_EXPIRED|NOT_YET_VALID)$/, 'compare the clock of this machine'],
  [/^ERR_TLS_CERT_ALTNAME_INVALID$/, 'the certificate is that of another host: check the URL'],
];

/**
 * Node's errors for a proxy that demands authentication: for a tunnel, and for plain http:, where status 407 gives an
 * error without message and code (Node 20 to 26).
 */
const PROXY_LOGIN =
  /^Proxy response \(407\)|^TypeError: fetch failed$|^proxy authentication required$/;

export const PROXY_LOGIN_ADVICE: string =
  'a proxy on the way wants a user name and a password: put user:password@ before its host in the variable that ' +
  'names it (HTTPS_PROXY)';

/** Whether a proxy has demanded authentication, so that retrying is useless. */
export function isProxyLogin({ message }: ConnectionCause): boolean {
  return PROXY_LOGIN.test(message);
}

/** Keys under which undici keeps the dispatcher of `fetch`, by interface version. */
const DISPATCHERS = [1, 2, 3].map((version) => Symbol.for(`undici.globalDispatcher.${version}`));

/** What sends the requests of `fetch`, once it was called, in all interface versions. Other runtimes have none. */
export function dispatchers(): object[] {
  const found = globalThis as unknown as Readonly<Record<symbol, object | undefined>>;
  const all = DISPATCHERS.map((key) => found[key]).filter((dispatcher) => dispatcher !== undefined);
  // On Node 26 the older interface is a wrapper around the newer one.
  return all.filter((one) => one.constructor.name !== 'Dispatcher1Wrapper');
}

/**
 * Whether the `fetch` of this runtime, once called, uses no proxy: Node's then has a plain `Agent`. Seen on Node 20,
 * 22, 24 and 26, with and without `NODE_USE_ENV_PROXY`.
 */
function goesDirectly(): boolean {
  const senders = dispatchers();
  return senders.length > 0 && senders.every((sender) => sender.constructor.name === 'Agent');
}

/**
 * Advice after a connection to a URL has failed; undefined if the error shows no reason.
 *
 * @param proxy the variable that names a proxy for the URL, if there is one
 */
export function nodeFetchAdvice(
  url: URL,
  cause: ConnectionCause,
  proxy: string | undefined,
): string | undefined {
  const ofCode = CODES.find(([codes]) => codes.test(cause.code ?? ''))?.[1];
  if (ofCode !== undefined) return ofCode;
  if (isProxyLogin(cause)) return PROXY_LOGIN_ADVICE;
  if (proxy === undefined || isLoopback(url) || !goesDirectly()) return undefined;
  return (
    `${proxy} names a proxy, which the fetch of this Node does not use: start Node with NODE_USE_ENV_PROXY=1 ` +
    `(22.21, 24 and later${proxy.toUpperCase() === 'ALL_PROXY' ? ', with HTTPS_PROXY in place of ALL_PROXY' : ''}), ` +
    'or pass a `fetch` that goes through it'
  );
}
