/**
 * What the contents of a file that has no hash are known by: two downloads with one identity may share what
 * was received.
 */

import { createHash } from 'node:crypto';
import { isStrongTag } from '../file-version.js';
import type { HttpFile } from '../http-file.js';

/** Parameters of a query that say who may read for how long, and not what. */
interface SignatureParameters {
  /** Without this one the others are parameters of the server's own. */
  readonly marker: RegExp;
  readonly names: RegExp;
}

const SIGNATURES: readonly SignatureParameters[] = [
  // Amazon S3 and what is like it; Google Cloud Storage.
  { marker: /^x-(?:amz|goog)-/i, names: /^x-(?:amz|goog)-/i },
  // CloudFront, Google's CDN; the second version of the signatures of S3, Google and Alibaba.
  {
    marker: /^Signature$/,
    names:
      /^(?:Signature|Expires|Policy|Key-Pair-Id|Hash-Algorithm|KeyName|AWSAccessKeyId|GoogleAccessId|OSSAccessKeyId)$/,
  },
  // Azure: a shared access signature. GitHub adds the last one.
  {
    marker: /^sig$/,
    names:
      /^(?:sig|s[eprstv]|ss|srt|si|sip|spr|skoid|sktid|skt|ske|sks|skv|saoid|suoid|scid|sdd|ses|jwt)$/,
  },
  // Alibaba, whose `x-oss-process` changes the contents; Tencent.
  {
    marker: /^x-oss-signature$/i,
    names:
      /^x-oss-(?:signature|signature-version|credential|date|expires|additional-headers|security-token)$/i,
  },
  {
    marker: /^q-signature$/,
    names: /^q-(?:signature|sign-algorithm|ak|sign-time|key-time|header-list|url-param-list)$/,
  },
];

/** The parts of a query, as they stand there, that do not belong to its signature. */
function lastingParts({ search }: URL): string[] {
  const parts = search.slice(1).split('&');
  const named = parts.map((part) => [part, partName(part)] as const);
  const found = SIGNATURES.filter(({ marker }) => named.some(([, name]) => marker.test(name)));
  return named
    .filter(([, name]) => !found.some(({ names }) => names.test(name)))
    .map(([part]) => part);
}

function partName(part: string): string {
  const name = part.replace(/=.*/s, '');
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** SHA-256 of facts, which then are not to be read: a query may hold secrets. */
function digestOf(...facts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex');
}

/**
 * The version of a file that has answered: its URL but for what signs it, its strong ETag, its length and its
 * `Last-Modified`; null without a strong ETag. Of a commit of the Hub, which never changes, URL and length.
 *
 * @param given what the caller knows the source by, in place of all these but the length
 */
export function versionOf(file: HttpFile, name: string, given: string | undefined): string | null {
  const { total, tag, modified, commit } = file.version ?? {};
  const { url } = file;
  if (given !== undefined) return digestOf('given', given, name, total);
  if (commit !== undefined) return digestOf('commit', url.href, total);
  if (!isStrongTag(tag)) return null;
  const address = [url.origin + url.pathname, ...lastingParts(url)];
  return digestOf('url', address, tag, total, modified ?? null);
}
