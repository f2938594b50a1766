/** What a caller's text or URL means: a URL, or a file or folder on the Hub. */

import { argumentRangeError } from '../errors/arguments.js';
import { RemoteError } from '../errors/errors.js';
import { isHubUri, parseHubId } from '../hub/ids.js';
import { type HubAddress, parseHubUrl } from './hub-address.js';
import { parseHttpUrl } from './safe-urls.js';

/** Where a source is. */
export type SourceAddress =
  | { readonly hub: null; readonly url: URL }
  | { readonly hub: HubAddress; readonly url: null };

/** A scheme; one letter is a drive of Windows. */
const SCHEME = /^[a-z][a-z\d+.-]+:/i;

/** What is opened by other calls, and how. */
const ADVICE: Readonly<Record<string, string>> = {
  ['file:']: 'open local files by openCheckpoint or safeOpen',
  ['blob:']: 'pass the Blob itself',
};

/**
 * The URL of the Hub without a slash at its end.
 *
 * @throws RemoteError `SAFETENSORS_UNSAFE_URL`; `label` says where it comes from
 */
export function requireEndpoint(text: string, label: string): string {
  const url = parseHttpUrl(text);
  if (typeof url === 'string') throw unsafe(label, url);
  return url.origin + url.pathname.replace(/\/+$/, '');
}

function unsafe(label: string, found: string): RemoteError {
  const advice = Object.hasOwn(ADVICE, found) ? `; ${ADVICE[found]}` : '';
  const message = `expected ${label} to be an https: or http: URL, found ${found}${advice}`;
  return new RemoteError('SAFETENSORS_UNSAFE_URL', message);
}

/**
 * Parses a source. `endpoint` has no slash at its end; its pages are known as those of the Hub are.
 *
 * @throws RemoteError `SAFETENSORS_UNSAFE_URL` for other schemes and for URLs with a user name or password
 * @throws RangeError `ERR_OUT_OF_RANGE` for what is no URL, a malformed `hf://` id, and other pages of the Hub
 */
export function parseSource(text: string, endpoint: string): SourceAddress {
  if (isHubUri(text)) {
    const id = parseHubId(text);
    if (id !== null) return { hub: { endpoint, id, isFile: false }, url: null };
  }
  if (!SCHEME.test(text)) {
    const hint = parseHubId(text) === null ? 'openCheckpoint opens local paths' : `hf://${text}?`;
    const expected = `the URL of a file or an index, or hf://org/name[@revision][/path] (${hint})`;
    throw argumentRangeError('source', expected, text);
  }
  const url = parseHttpUrl(text);
  if (typeof url === 'string') throw unsafe('the source', url);
  const hub = parseHubUrl(url, endpoint);
  return hub === null ? { hub, url } : { hub, url: null };
}
