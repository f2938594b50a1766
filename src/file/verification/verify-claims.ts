/** Compares safetensors files with the hashes that their metadata and the Hub's cache claim. */

import { realpathSync } from 'node:fs';
import { quoteName } from '../../errors/errors.js';
import type { Header } from '../../header/header.js';
import { SUMS_KEY } from '../../header/tensor-sums.js';
import { Transfer, type TransferOptions } from '../../platform/transfer/transfer.js';
import type { FilePlace } from '../file.js';
import { type CheckpointProblem, isOfFile, problemOf } from '../shards/verification-error.js';
import { type Claim, claimsOf, HUB_CACHE, hasClaim } from './claims.js';
import { type HashedLayout, hashFile, hashPart } from './hash-file.js';
import { hashedLayout, tensorsLayout } from './legacy-place.js';

/** A file with a valid header. */
export interface ClaimingFile {
  /** The file's name in problems. */
  readonly name: string;
  readonly path: string;
  /** Its place, where it is a part of an archive. */
  readonly place?: FilePlace | undefined;
  readonly header: Header;
  readonly byteLength: number;
}

/** Compares files with the hashes that they claim. Returns wrong claims, and files that cannot be read to the end. */
export async function verifyClaims(
  files: readonly ClaimingFile[],
  options: TransferOptions,
): Promise<CheckpointProblem[]> {
  const problems: CheckpointProblem[] = [];
  const claimed = files
    .map((file) => ({ ...file, metadata: file.header.metadata ?? new Map<string, string>() }))
    .filter(({ path, place, metadata }) => hasClaim(place === undefined ? path : null, metadata));
  const totalBytes = claimed.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const transfer = new Transfer(totalBytes, options);
  const { signal } = options;
  const hashing = { signal, onBytes: (bytes: number) => transfer.advance(bytes) };
  for (const { name, path, place, header, metadata } of claimed) {
    try {
      const layout = layoutOf(header);
      const hashes =
        place === undefined
          ? await hashFile(path, layout, hashing)
          : await hashPart(place, layout, hashing);
      for (const claim of claimsOf(place === undefined ? path : null, metadata, hashes)) {
        if (claim.ok === false) problems.push(wrongClaim(name, path, claim));
      }
    } catch (error) {
      if (!isOfFile(error)) throw error;
      problems.push(problemOf(name, error));
    }
  }
  transfer.finish();
  return problems;
}

/** What to hash of a file: for sums of tensors, every one of them. */
function layoutOf(header: Header): HashedLayout {
  return header.metadata?.has(SUMS_KEY) === true ? tensorsLayout(header) : hashedLayout(header);
}

function wrongClaim(
  file: string,
  path: string,
  { by, claimed, found, tensor }: Claim,
): CheckpointProblem {
  if (by === SUMS_KEY) {
    const of = tensor === undefined ? '' : ` for tensor ${quoteName(tensor)}`;
    const message = `${by} claims ${claimed}${of}, found ${found}`;
    return { file, tensor: tensor ?? null, code: 'SAFETENSORS_CHECKSUM_MISMATCH', message };
  }
  const advice = by === HUB_CACHE ? `; delete ${realpathSync(path)}, and download it again` : '';
  const message = `${by} claims ${claimed}, found ${found}${advice}`;
  return { file, tensor: null, code: 'SAFETENSORS_VERIFICATION_FAILED', message };
}
