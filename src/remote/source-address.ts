/** Parses a caller's source: a URL, or a file or folder on the Hub. */

import type { Advice } from '../errors/advice.js';
import { argumentRangeError } from '../errors/arguments.js';
import { RemoteError } from '../errors/errors.js';
import { isHubUri, noRevision, parseHubId, revisionOf, URL_PATTERN } from '../file/hub/ids.js';
import { type HubAddress, parseHubUrl } from './hub-address.js';
import { parseHttpUrl } from './safe-urls.js';

/** The address of a source. */
export type SourceAddress =
  | { readonly hub: null; readonly url: URL }
  | { readonly hub: HubAddress; readonly url: null };

const PASS_READER: Advice = { option: 'read', text: 'or an object with byteLength and read' };

const USE_ADDRESS: Advice = {
  option: 'URL',
  text: 'safeOpen opens local paths, new URL(text, base) completes an address',
};

/** Advice for object stores with their own kind of addresses. */
const STORE_ADVICE = `pass a presigned https: URL, ${PASS_READER.text}`;

/** Advice for sources that other functions open. */
const ADVICE: Readonly<Record<string, string>> = {
  ['file:']: 'open local files by safeOpen',
  ['blob:']: 'pass the Blob itself',
  ['s3:']: STORE_ADVICE,
  ['gs:']: STORE_ADVICE,
};

/**
 * The URL of the Hub without a slash at its end.
 *
 * @throws RemoteError `SAFETENSORS_UNSAFE_URL`; `label` names its origin
 */
export function requireEndpoint(text: string, label: string): string {
  const url = parseHttpUrl(text);
  if (typeof url === 'string') throw unsafe(label, url);
  return url.origin + url.pathname.replace(/\/+$/, '');
}

function unsafe(label: string, found: string): RemoteError {
  const advice = Object.hasOwn(ADVICE, found) ? `; ${ADVICE[found]}` : '';
  const message = `expected ${label} to be an https: or http: URL, found ${found}${advice}`;
  const forReaders = ADVICE[found] === STORE_ADVICE ? [PASS_READER] : undefined;
  return new RemoteError('SAFETENSORS_UNSAFE_URL', message, { advice: forReaders });
}

/** Guesses the meaning of a text that is not a URL. */
function hint(text: string, endpoint: string): string {
  if (parseHubId(text) === null) {
    return USE_ADDRESS.text;
  }
  // The oldest models have no organisation, and no hf:// id.
  return text.includes('/') ? `hf://${text}?` : `${endpoint}/${text.replace('@', '/tree/')}?`;
}

/**
 * Parses a source. `endpoint` has no slash at its end; its pages are recognised as the Hub's are. `revision` is the
 * caller's option.
 *
 * @throws RemoteError `SAFETENSORS_UNSAFE_URL` for other schemes and for URLs with a user name or password
 * @throws RangeError `ERR_OUT_OF_RANGE` for a text that is not a URL, a malformed `hf://` id, and other pages of the
 *   Hub
 */
export function parseSource(
  text: string,
  endpoint: string,
  revision: string | undefined,
): SourceAddress {
  if (isHubUri(text)) {
    const id = parseHubId(text, 'source');
    if (id !== null)
      return { hub: withRevision({ endpoint, id, isFile: false }, revision), url: null };
  }
  if (!URL_PATTERN.test(text)) {
    const expected = `the URL of a file or an index, or hf://org/name[@revision][/path] (${hint(text, endpoint)})`;
    // It may be a presigned URL without its scheme, whose query is a secret.
    const error = argumentRangeError('source', expected, text.replace(/[?#].*/s, ''));
    throw parseHubId(text) === null ? Object.assign(error, { advice: [USE_ADDRESS] }) : error;
  }
  const url = parseHttpUrl(text);
  if (typeof url === 'string') throw unsafe('the source', url);
  const hub = parseHubUrl(url, endpoint);
  if (hub !== null) return { hub: withRevision(hub, revision), url: null };
  if (revision !== undefined) throw noRevision('a URL', revision);
  return { hub, url };
}

function withRevision(hub: HubAddress, revision: string | undefined): HubAddress {
  return { ...hub, id: { ...hub.id, revision: revisionOf(hub.id, revision) } };
}
