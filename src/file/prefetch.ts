/** Brings the bytes of tensors into memory before they are used, off the event loop. */

import { readRanges } from '../platform/io/parallel-reads.js';
import { type Storage, verifyOpen } from '../tensor/storage/storage.js';
import type { StorageRange } from '../tensor/storage-range.js';
import { type ByteRange, cut, type FileRange, merge } from '../work/byte-ranges.js';
import { Slots } from '../work/slots.js';
import { Transfer, type TransferOptions, totalByteLength } from '../work/transfer.js';

/**
 * Length of a window of pages to fetch. Measured with 2 to 32 MiB: longer windows are not faster, and an abort or a
 * close waits for the end of a window.
 */
const WINDOW_BYTE_LENGTH = 4 * 2 ** 20;

/** Gaps up to this length are fetched along, which is cheaper than another call. */
const MAX_GAP_BYTE_LENGTH = 2 ** 16;

/** The pool has four threads, which other work needs too. */
const FETCHED_AT_ONCE = 2;

/** Slots shared by all files of the thread. */
const slots = new Slots(FETCHED_AT_ONCE);

/** Windows are cut at multiples of their length, so that no page belongs to two. */
function* windowsOf(ranges: readonly FileRange[]): Generator<ByteRange, void, void> {
  for (const { position, byteLength } of ranges) {
    yield* cut(position, position + byteLength, WINDOW_BYTE_LENGTH, 0);
  }
}

/**
 * Makes the sources readable without waiting: brings in the pages of `ranges`, which hold them. With a copying
 * storage, reads each source into the buffer that it will expose.
 *
 * @throws FileChangedError, FileClosedError, `SAFETENSORS_TENSOR_TOO_LARGE`,
 *   `SAFETENSORS_OUT_OF_MEMORY`, `signal.reason`
 */
export async function prefetch(
  storage: Storage,
  ranges: readonly FileRange[],
  sources: () => readonly StorageRange[],
  options: TransferOptions,
): Promise<void> {
  const populate = storage.populate?.bind(storage);
  if (populate === undefined) return fill(storage, sources(), options);
  const sorted = ranges
    .filter(({ byteLength }) => byteLength > 0)
    .sort((a, b) => a.position - b.position);
  const merged = [...merge(sorted, { maxGap: MAX_GAP_BYTE_LENGTH })];
  const transfer = new Transfer(totalByteLength(merged), options, () => verifyOpen(storage));
  await transfer.run(windowsOf(merged), slots, async ({ begin, end }) => {
    await populate(begin, end);
    return end - begin;
  });
}

async function fill(
  storage: Storage,
  sources: readonly StorageRange[],
  options: TransferOptions,
): Promise<void> {
  verifyOpen(storage);
  for (const source of sources) source.requireBufferOf(source.byteLength);
  const missing = sources
    .filter((source) => source.byteLength > 0 && !source.isResolved)
    .sort((a, b) => a.position - b.position);
  const transfer = new Transfer(totalByteLength(missing), options, () => verifyOpen(storage));
  // The bytes are in memory already.
  if (storage.acquireDescriptor === undefined) return transfer.finish();
  const lease = storage.acquireDescriptor();
  const file = { fd: lease.fd, path: storage.path };
  try {
    await readRanges(file, missing, transfer, (source, buffer) => source.adopt(buffer));
  } finally {
    lease.release();
  }
}
