/** Compares a file with the hashes that its metadata and the Hub cache declare. */

import type { Header } from '../../header/header.js';
import {
  DIGEST_DIGITS,
  DIGESTS_KEY,
  digestsProblem,
  LEGACY_HASH,
  MODEL_HASH,
  MODELSPEC_HASH,
} from '../../header/tensor-digests.js';
import { forEachYielding } from '../../work/items.js';
import type { Work } from '../../work/work.js';
import { SHA256 } from '../cache/cache-layout.js';
import { unverifiedFile, type VerifiedFile, verifiedFile } from '../shards/verification-report.js';
import {
  AUTO_V1_BYTE_LENGTH,
  type FileHashes,
  type HashedLayout,
  type LongHash,
} from './hash-file.js';

/** The claimant of a blob's name. */
export const HUB_CACHE = 'Hub cache';

/** A declared hash. */
export interface DeclaredHash {
  /** The claimant: a key of the metadata, or `Hub cache`. */
  readonly by: string;
  readonly declared: string;
  /** The computed hash. */
  readonly found: string;
  /** Whether the hash matches; null if it differs only in metadata. */
  readonly ok: boolean | null;
  /** The tensor whose bytes are hashed; absent for hashes of the whole file or of all tensors. */
  readonly tensor?: string;
}

/** Whether a file has declared hashes. `cached` is the name of its blob in the cache, if that is a SHA-256. */
export function declaresHash(
  cached: string | null,
  metadata: ReadonlyMap<string, string>,
): boolean {
  return (
    metadata.has(MODELSPEC_HASH) ||
    metadata.has(LEGACY_HASH) ||
    metadata.has(DIGESTS_KEY) ||
    SHA256.test(metadata.get(MODEL_HASH)?.toLowerCase() ?? '') ||
    cached !== null
  );
}

/** The long hashes that `declaredHashesOf` compares. */
export function requestedHashesOf(
  cached: string | null,
  metadata: ReadonlyMap<string, string>,
): ReadonlySet<LongHash> {
  const wanted = new Set<LongHash>();
  if (cached !== null) wanted.add('sha256');
  const ofData = [MODELSPEC_HASH, MODEL_HASH, LEGACY_HASH];
  if (ofData.some((key) => metadata.has(key))) wanted.add('dataSha256');
  return wanted;
}

/**
 * Returns the hashes that a file's metadata and the cache declare. For digests of tensors, `hashes` have the ranges of
 * all tensors.
 *
 * @param cached the name of its blob in the cache, if that is a SHA-256; null for remote files and parts of archives
 */
export function* declaredHashesOf(
  cached: string | null,
  metadata: ReadonlyMap<string, string>,
  { sha256, dataSha256, legacy, ranges }: FileHashes,
): Work<DeclaredHash[]> {
  const declaredHashes: DeclaredHash[] = [];
  const check = (by: string, declared: string | null | undefined, digits: string): void => {
    if (typeof declared === 'string')
      declaredHashes.push({ by, declared, found: digits, ok: declared.toLowerCase() === digits });
  };
  check(MODELSPEC_HASH, metadata.get(MODELSPEC_HASH), `0x${dataSha256}`);
  // Some trainers write shorter hashes, of other bytes.
  const model = metadata.get(MODEL_HASH)?.toLowerCase() ?? '';
  if (SHA256.test(model)) check(MODEL_HASH, model, dataSha256);
  const declaredLegacy = metadata.get(LEGACY_HASH);
  if (declaredLegacy !== undefined && legacy !== null) {
    const isSame = declaredLegacy.toLowerCase() === legacy;
    // This hash depends on the length of the `ss_` keys: with the right tensors, the keys were changed.
    const ok = isSame || (model === dataSha256 ? null : false);
    declaredHashes.push({ by: LEGACY_HASH, declared: declaredLegacy, found: legacy, ok });
  }
  declaredHashes.push(...(yield* declaredDigests(metadata.get(DIGESTS_KEY), ranges)));
  check(HUB_CACHE, cached, sha256);
  return declaredHashes;
}

/**
 * Compares the digests in the metadata with those that were found, of all tensors by name in the order of their bytes:
 * wrong digests are separate results, right ones are one together. None for no digests.
 */
export function* declaredDigests(
  text: string | undefined,
  found: ReadonlyMap<string, string>,
): Work<readonly DeclaredHash[]> {
  if (text === undefined) return [];
  const by = DIGESTS_KEY;
  const wrong: DeclaredHash[] = [];
  let at = 0;
  yield* forEachYielding(found, ([tensor, hex]) => {
    const declared = text.slice(at, at + DIGEST_DIGITS);
    at += DIGEST_DIGITS;
    if (declared !== hex) wrong.push({ by, declared, found: hex, ok: false, tensor });
  });
  const count = `${found.size} digests of tensors`;
  const isSame = wrong.length === 0 && at === text.length;
  if (isSame) return [{ by, declared: count, found: count, ok: true }];
  // A text that is the same has nothing but digits.
  const problem = digestsProblem(text, found.size);
  if (problem === undefined) return wrong;
  return [{ by, declared: `${text.length} characters`, found: problem, ok: false }];
}

/**
 * Returns which tensors of a file the declared hashes cover, right or wrong.
 *
 * @param file the name of the file in reports
 */
export function comparedBy(
  file: string,
  declaredHashes: readonly DeclaredHash[],
  header: Header,
  { legacyBegin }: Pick<HashedLayout, 'legacyBegin'>,
): VerifiedFile {
  const { size } = header;
  if (declaredHashes.some(coversAllTensors)) return verifiedFile(file, size, 'digests');
  const isPartial = legacyBegin !== null && declaredHashes.some(({ by }) => by === LEGACY_HASH);
  if (!isPartial) {
    const reason = declaredHashes.length > 0 ? 'invalid-digests' : 'no-digests';
    return unverifiedFile(file, size, reason);
  }
  const begin = legacyBegin - header.dataStart;
  const end = begin + AUTO_V1_BYTE_LENGTH;
  const notCompared: string[] = [];
  for (let entry = 0; entry < size; entry++) {
    const isWithin = header.begin(entry) >= begin && header.end(entry) <= end;
    if (!isWithin) notCompared.push(header.name(entry));
  }
  const comparedTensors = size - notCompared.length;
  if (comparedTensors === 0) return unverifiedFile(file, size, 'partial-digests');
  if (comparedTensors === size) return verifiedFile(file, size, 'digests');
  const checks = ['digests'] as const;
  return { file, tensors: size, comparedTensors, checks, reason: 'partial-digests', notCompared };
}

/** A malformed text of digests is a wrong hash without a tensor: nothing was compared with it. */
function coversAllTensors({ by, ok, tensor }: DeclaredHash): boolean {
  if (by === LEGACY_HASH) return false;
  return by !== DIGESTS_KEY || ok === true || tensor !== undefined;
}
