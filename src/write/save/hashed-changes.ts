/** Hashes of a file's tensors as changes of its metadata. */

import { declaredDigests } from '../../file/verification/declared-hashes.js';
import { type FileHashes, hashOpened, type LongHash } from '../../file/verification/hash-file.js';
import { tensorsLayout } from '../../file/verification/legacy-place.js';
import type { Header } from '../../header/header.js';
import {
  DIGESTS_KEY,
  digestMismatch,
  MODELSPEC_HASH,
  reservedDigests,
} from '../../header/tensor-digests.js';
import type { OpenedFile } from '../../platform/io/opened-file.js';
import type { Transfer } from '../../work/transfer.js';
import { runAsync, type Work } from '../../work/work.js';

/** Which hashes go into the metadata. */
interface HashesToWrite {
  /** The digests of all tensors. */
  readonly digests: boolean;
  /** ModelSpec's hash of all tensors together. */
  readonly modelspecHash: boolean;
}

/** The hash of ModelSpec, as it writes it. */
function modelspecHashOf(dataSha256: string): string {
  return `0x${dataSha256}`;
}

/** The changes with text of the right length in place of the hashes: tells beforehand whether they fit. */
export function changesWithReserve(header: Header, hashes: HashesToWrite): Map<string, string> {
  const changes = new Map<string, string>();
  if (hashes.digests) changes.set(DIGESTS_KEY, reservedDigests(header.size));
  if (hashes.modelspecHash) changes.set(MODELSPEC_HASH, modelspecHashOf(reservedDigests(1)));
  return changes;
}

/**
 * Reads the file, and returns the changes. Sums that the file has already must be right, unless `isNew`: damaged bytes
 * must not get digests that hide it.
 *
 * @throws FormatError `SAFETENSORS_CHECKSUM_MISMATCH`, with the first tensor whose bytes differ
 * @throws FileChangedError when the file is truncated; errors of the system; `signal.reason`
 */
export async function hashedChanges(
  file: OpenedFile,
  header: Header,
  { digests, modelspecHash }: HashesToWrite,
  isNew: boolean,
  transfer: Transfer,
): Promise<Map<string, string>> {
  const onBytes = (bytes: number): void => transfer.advance(bytes);
  const wanted = new Set<LongHash>(modelspecHash ? ['dataSha256'] : []);
  const hashing = { signal: transfer.signal, onBytes, wanted };
  const layout = await runAsync(tensorsLayout(header), transfer.signal);
  const hashes = await hashOpened(file, layout, hashing);
  const changes = new Map<string, string>();
  if (!isNew) await runAsync(requireSameDigests(header, hashes, file.path), transfer.signal);
  if (digests) {
    changes.set(DIGESTS_KEY, [...hashes.ranges.values()].join(''));
  }
  if (modelspecHash) changes.set(MODELSPEC_HASH, modelspecHashOf(hashes.dataSha256));
  return changes;
}

function* requireSameDigests(
  { metadata }: Header,
  { ranges }: FileHashes,
  path: string,
): Work<void> {
  const declared = yield* declaredDigests(metadata?.get(DIGESTS_KEY), ranges);
  const wrong = declared.find(({ ok }) => ok === false);
  if (wrong === undefined) return;
  throw digestMismatch(wrong.declared, wrong.found, { path, tensor: wrong.tensor });
}
