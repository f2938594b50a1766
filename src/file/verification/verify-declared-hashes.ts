/** Compares safetensors files with the hashes that their metadata and the Hub cache declare. */

import { realpathSync } from 'node:fs';
import { quoteName } from '../../errors/errors.js';
import type { Header } from '../../header/header.js';
import { DIGESTS_KEY } from '../../header/tensor-digests.js';
import { Transfer, type TransferOptions, totalByteLength } from '../../work/transfer.js';
import { runAsync } from '../../work/work.js';
import { cachedSha256 } from '../cache/cache-layout.js';
import type { FilePlace } from '../file.js';
import { isOfFile, problemOf } from '../shards/file-problems.js';
import {
  type CheckpointProblem,
  unverifiedFile,
  type VerifiedFile,
} from '../shards/verification-report.js';
import {
  comparedBy,
  type DeclaredHash,
  declaredHashesOf,
  declaresHash,
  HUB_CACHE,
  requestedHashesOf,
} from './declared-hashes.js';
import { type HashedLayout, hashFile, hashPart } from './hash-file.js';
import { hashedLayout, tensorsLayout } from './legacy-place.js';

/** A file with a valid header. */
export interface DeclaringFile {
  /** The file's name in problems. */
  readonly name: string;
  readonly path: string;
  /** Its place, where it is a part of an archive. */
  readonly place?: FilePlace | undefined;
  readonly header: Header;
  readonly byteLength: number;
}

/** Where a file declares hashes. */
interface Declaring {
  readonly metadata: ReadonlyMap<string, string>;
  /** The name of its blob in the cache, if that is a SHA-256. */
  readonly cached: string | null;
  /** Whether there are any. */
  readonly declares: boolean;
}

/** The findings of a comparison. */
export interface ComparedFiles {
  /** Wrong hashes, and files that cannot be read to the end. */
  readonly problems: readonly CheckpointProblem[];
  /** Every file, in the given order. */
  readonly files: readonly VerifiedFile[];
}

/** Compares files with the hashes that they declare. `check` is called after each; it throws to end the comparison. */
export async function verifyDeclaredHashes(
  files: readonly DeclaringFile[],
  options: TransferOptions,
  check: (position: number) => void = () => {},
): Promise<ComparedFiles> {
  const problems: CheckpointProblem[] = [];
  const compared: VerifiedFile[] = [];
  const declaring: (DeclaringFile & Declaring)[] = [];
  for (const file of files) {
    const metadata = file.header.metadata ?? new Map<string, string>();
    const { path, place } = file;
    // Within an archive, a blob's name is the hash of the whole archive.
    const cached = place === undefined ? await runAsync(cachedSha256(path), options.signal) : null;
    declaring.push({ ...file, metadata, cached, declares: declaresHash(cached, metadata) });
  }
  const totalBytes = totalByteLength(declaring.filter(({ declares }) => declares));
  const transfer = new Transfer(totalBytes, options);
  const { signal } = options;
  const hashing = { signal, onBytes: (bytes: number) => transfer.advance(bytes) };
  for (const [position, { declares, metadata, cached, ...file }] of declaring.entries()) {
    const { name, path, place, header } = file;
    if (!declares) {
      compared.push(unverifiedFile(name, header.size, 'no-digests'));
      continue;
    }
    try {
      const layout = await layoutOf(header, signal);
      const choice = { ...hashing, wanted: requestedHashesOf(cached, metadata) };
      const hashes =
        place === undefined
          ? await hashFile(path, layout, choice)
          : await hashPart(place, layout, choice);
      check(position);
      const found = await runAsync(declaredHashesOf(cached, metadata, hashes), signal);
      for (const hash of found) {
        if (hash.ok === false) problems.push(wrongHash(name, path, hash));
      }
      compared.push(comparedBy(name, found, header, layout));
    } catch (error) {
      if (!isOfFile(error)) throw error;
      problems.push(problemOf(name, error));
      compared.push(unverifiedFile(name, header.size, 'unreadable'));
    }
  }
  transfer.finish();
  // Other threads may have hashed all bytes before the first report of progress.
  signal?.throwIfAborted();
  return { problems, files: compared };
}

/** What to hash of a file: for digests of tensors, every one of them. */
async function layoutOf(header: Header, signal: AbortSignal | undefined): Promise<HashedLayout> {
  const hasDigests = header.metadata?.has(DIGESTS_KEY) === true;
  return hasDigests ? runAsync(tensorsLayout(header), signal) : hashedLayout(header);
}

function wrongHash(
  file: string,
  path: string,
  { by, declared, found, tensor }: DeclaredHash,
): CheckpointProblem {
  if (by === DIGESTS_KEY) {
    const of = tensor === undefined ? '' : ` for tensor ${quoteName(tensor)}`;
    const message = `${by} declares ${declared}${of}, found ${found}`;
    return { file, tensor: tensor ?? null, code: 'SAFETENSORS_CHECKSUM_MISMATCH', message };
  }
  const advice = by === HUB_CACHE ? `; delete ${realpathSync(path)}, and download it again` : '';
  const message = `${by} declares ${declared}, found ${found}${advice}`;
  return { file, tensor: null, code: 'SAFETENSORS_VERIFICATION_FAILED', message };
}
