/** Writes whole files by their layouts, with digests, and compared with their sources. */

import { type WrittenFile, writeViews } from '../../platform/io/file-writes.js';
import { RangeHashes } from '../../platform/io/range-hashes.js';
import { mayStartThread } from '../../platform/io/threads.js';
import type { Transfer } from '../../work/transfer.js';
import { untilAborted } from '../../work/until-aborted.js';
import type { Payload } from '../input/tensor-input.js';
import { type ReadyPayload, requireDigest } from './declared-digests.js';
import type { LeasedFiles } from './leased-files.js';
import { HASHED_BYTE_LENGTH, VERIFIED_BYTE_LENGTH } from './long-files.js';
import {
  type LayoutWriting,
  type NamedBytes,
  type PlacedEntry,
  TensorWriter,
  type WritableLayout,
  writeAll,
} from './tensor-writes.js';
import type { WrittenDigests } from './written-digests.js';

/**
 * Writes a whole file, header and tensors, last the digests of the tensors if it has them; with `verify` it reads
 * header and tensors back and compares them. Does not end the transfer, which can span several files. The caller
 * verifies `sources`, the files of the tensors, after the last write.
 *
 * @throws As {@link writeTensors}; `SAFETENSORS_VERIFICATION_FAILED`
 */
export async function writeLayout(
  target: WrittenFile,
  layout: WritableLayout,
  sources: LeasedFiles,
  transfer: Transfer,
  how: LayoutWriting = {},
): Promise<void> {
  const { verify = false, onBytes } = how;
  const { byteLength, digests } = layout;
  const least = verify ? VERIFIED_BYTE_LENGTH : HASHED_BYTE_LENGTH;
  const isLong = onBytes === undefined && byteLength >= least && mayStartThread();
  const threads = isLong && (verify || digests !== undefined) ? await loadThreads() : undefined;
  const copies = verify && threads !== undefined ? new threads.CheckedCopies(target) : undefined;
  const written = digests && threads && new threads.WrittenDigests(target, digests.ranges);
  try {
    await writeHashed(target, layout, sources, transfer, { ...how, copies, written });
  } finally {
    await copies?.end();
  }
}

/**
 * Loads the code of the threads, which only long files need. Undefined where it cannot be read, as without a free
 * descriptor: then this thread copies and hashes.
 */
export async function loadThreads(): Promise<typeof import('./writing-threads.js') | undefined> {
  return await import('./writing-threads.js').catch(() => undefined);
}

/** Writes the file, and its digests if it has room for them. */
async function writeHashed(
  target: WrittenFile,
  layout: WritableLayout,
  sources: LeasedFiles,
  transfer: Transfer,
  how: LayoutWriting,
): Promise<void> {
  const { header, placed, digests } = layout;
  const { written } = how;
  if (digests === undefined) {
    await writeWhole(target, header, placed, sources, transfer, how);
    return;
  }
  if (written !== undefined) {
    await writeLong(target, layout, sources, transfer, { ...how, written });
    return;
  }
  const hashes = new RangeHashes(digests.ranges);
  const onBytes = (bytes: Uint8Array): void => {
    hashes.add(bytes);
    how.onBytes?.(bytes);
  };
  await writeWhole(target, header, placed, sources, transfer, { ...how, onBytes });
  await writeViews(target, [hashes.text()], digests.position);
}

async function writeWhole(
  target: WrittenFile,
  header: Uint8Array,
  placed: Iterable<PlacedEntry<Payload>>,
  sources: LeasedFiles,
  transfer: Transfer,
  how: LayoutWriting,
): Promise<void> {
  const writer = new TensorWriter(target, sources, transfer, how);
  await writer.writeBytes(header, 0);
  await writeAll(writer, header.byteLength, placed, sources);
}

/** Writes a file whose digests are computed on other threads, which hash what was written. */
async function writeLong(
  target: WrittenFile,
  { header, placed, digests }: WritableLayout,
  sources: LeasedFiles,
  transfer: Transfer,
  how: LayoutWriting & { readonly written: WrittenDigests },
): Promise<void> {
  const declared: [at: number, spec: NamedBytes<ReadyPayload>][] = [];
  function* noted(): Generator<PlacedEntry<Payload>, void, void> {
    let at = 0;
    for (const entry of placed) {
      const { spec } = entry;
      if (hasDeclaredDigest(spec)) declared.push([at, spec]);
      at++;
      yield entry;
    }
  }
  try {
    await writeWhole(target, header, noted(), sources, transfer, how);
    const found = await untilAborted(how.written.digests(), transfer.signal);
    for (const [at, { payload, byteLength }] of declared) {
      requireDigest(payload, found[at] as string, byteLength);
    }
    const text = new TextEncoder().encode(found.join(''));
    await writeViews(target, [text], digests?.position ?? 0);
  } finally {
    await how.written.end();
  }
}

/** Whether the bytes have a digest, and are not computed by a function that compares it. */
function hasDeclaredDigest(spec: NamedBytes<Payload>): spec is NamedBytes<ReadyPayload> {
  const { payload } = spec;
  return payload.kind !== 'stream' && payload.kind !== 'computed' && payload.digest !== undefined;
}
