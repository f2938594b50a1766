/** Brings the bytes of tensors into memory before they are used, off the event loop. */

import { mergeRanges } from '../io/merge-ranges.js';
import type { FileRange } from '../io/opened-file.js';
import { readRanges } from '../io/parallel-reads.js';
import { Slots, Transfer, type TransferOptions } from '../io/transfer.js';
import { type Storage, verifyOpen } from '../storage/storage.js';
import type { StorageRange } from '../tensor/storage-range.js';

/**
 * Pages are fetched in windows of this length. Measured with 2 to 32 MiB: longer ones are not faster,
 * and an abort or a close waits for the end of a window.
 */
const WINDOW_BYTE_LENGTH = 4 * 2 ** 20;

/** The pool has four threads, which other work needs too. */
const WINDOWS_AT_ONCE = 2;

/** Shared by all files of the thread. */
const slots = new Slots(WINDOWS_AT_ONCE);

/** Cuts at multiples of the window's length: no page belongs to two windows of a range. */
function* windowsOf(ranges: readonly FileRange[]): Generator<FileRange, void, void> {
  for (const range of ranges) {
    const end = range.position + range.byteLength;
    for (let { position } = range; position < end; ) {
      const next = (Math.floor(position / WINDOW_BYTE_LENGTH) + 1) * WINDOW_BYTE_LENGTH;
      yield { position, byteLength: Math.min(next, end) - position };
      position = next;
    }
  }
}

/** The sum of the lengths in bytes. */
function sumOf(parts: readonly { readonly byteLength: number }[]): number {
  return parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
}

/**
 * Makes the sources readable without waiting: brings in the pages of `ranges`, which hold them. From a
 * copying storage each source is read into the buffer that it will hand out.
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
  const merged = mergeRanges(ranges);
  const transfer = new Transfer(sumOf(merged), options, () => verifyOpen(storage));
  await transfer.run(windowsOf(merged), slots, async (window) => {
    await populate(window.position, window.position + window.byteLength);
    return window.byteLength;
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
  const transfer = new Transfer(sumOf(missing), options, () => verifyOpen(storage));
  // The bytes are in memory already.
  if (storage.lend === undefined) return transfer.finish();
  const lent = storage.lend();
  const file = { fd: lent.fd, path: storage.path };
  try {
    await readRanges(file, missing, transfer, (source, buffer) => source.adopt(buffer));
  } finally {
    lent.giveBack();
  }
}
