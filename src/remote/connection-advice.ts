/** Advice for failed connections. */

import { type ConnectionCause, nodeFetchAdvice } from './node-fetch.js';

/** CORS looks like a broken connection to a page. */
function isOtherSite({ origin }: URL): boolean {
  const { location } = globalThis as { readonly location?: { readonly origin?: string } };
  return location?.origin !== undefined && location.origin !== origin;
}

/**
 * Advice after a connection to a URL has failed; empty if absent.
 *
 * @param proxy the variable that names a proxy for the URL, if there is one
 */
export function connectionAdvice(
  url: URL,
  cause: ConnectionCause,
  proxy: string | undefined,
): string {
  const advice = nodeFetchAdvice(url, cause, proxy);
  if (advice !== undefined) return advice;
  if (isOtherSite(url)) return 'a page may only ask another origin that allows it by CORS headers';
  return '';
}
