/** Identifies the contents of a file without a hash: downloads with the same version may share received bytes. */

import { createHash } from 'node:crypto';
import { isStrongTag } from '../file-version.js';
import type { HttpFile } from '../http-file.js';

/** Parameters of a query that grant access for a time and don't select contents. */
interface SignatureParameters {
  /** Without this parameter the others belong to the server itself. */
  readonly marker: RegExp;
  readonly names: RegExp;
}

const SIGNATURES: readonly SignatureParameters[] = [
  // Amazon S3 and compatible stores; Google Cloud Storage.
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

/** The parts of a query, verbatim, that don't belong to its signature. */
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

/** SHA-256 of facts, to hide them: a query may hold secrets. */
function digestOf(...facts: readonly unknown[]): string {
  return createHash('sha256').update(JSON.stringify(facts)).digest('hex');
}

/**
 * The version of a file after its first answer: its URL without the signature, its strong ETag, length and
 * `Last-Modified`; null without a strong ETag. For a commit of the Hub, which never changes, URL and length.
 *
 * @param given the caller's `versionId`, which replaces all of these except the length
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
