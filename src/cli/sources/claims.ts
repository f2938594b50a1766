/** What a file says about its own hashes, and whether that is so. */

import { realpathSync } from 'node:fs';
import { basename, dirname } from 'node:path';
import type { FileHashes } from './hash-file.js';

/** A hash that somebody claims. */
export interface Claim {
  /** Who: a key of the metadata, or `Hub cache`. */
  readonly by: string;
  readonly claimed: string;
  readonly ok: boolean;
}

const SHA256 = /^[\da-f]{64}$/;

/**
 * The SHA-256 by which the cache of the Hub knows a file: the name of its blob. Small files have that of git,
 * which is another hash.
 */
export function blobNameOf(path: string): string | null {
  const real = realpathSync(path);
  const name = basename(real);
  return basename(dirname(real)) === 'blobs' && SHA256.test(name) ? name : null;
}

/** The claims of a file's metadata and of the cache that it is in. */
export function claimsOf(
  path: string,
  metadata: ReadonlyMap<string, string>,
  { sha256, dataSha256 }: FileHashes,
): Claim[] {
  const claims: Claim[] = [];
  const check = (by: string, claimed: string | null | undefined, digits: string): void => {
    if (typeof claimed === 'string')
      claims.push({ by, claimed, ok: claimed.toLowerCase() === digits });
  };
  check('modelspec.hash_sha256', metadata.get('modelspec.hash_sha256'), `0x${dataSha256}`);
  // Some trainers write shorter ones, of other bytes.
  const model = metadata.get('sshs_model_hash')?.toLowerCase() ?? '';
  if (SHA256.test(model)) check('sshs_model_hash', model, dataSha256);
  check('Hub cache', blobNameOf(path), sha256);
  return claims;
}
