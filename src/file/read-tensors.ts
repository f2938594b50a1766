/** Reads tensors into memory of the caller's own, independent of the file. */

import { allocate } from '../errors/out-of-memory.js';
import type { Dtype } from '../header/dtype.js';
import { changeCheck } from '../platform/io/opened-file.js';
import { readRanges } from '../platform/io/parallel-reads.js';
import { type Storage, verifyOpen } from '../tensor/storage/storage.js';
import { requireBuffer } from '../tensor/storage-range.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';
import type { FileRange } from '../work/byte-ranges.js';
import { Transfer, type TransferOptions } from '../work/transfer.js';
import { runAsync, type Work } from '../work/work.js';

/** A tensor to read: its facts and the place of its bytes in the file. */
interface ReadEntry extends FileRange {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

/**
 * Reads the tensors by name, in the order given, each into a separate buffer; copies from memory between other
 * events.
 *
 * @throws FileChangedError when size or modification time change meanwhile
 * @throws FileClosedError, `SAFETENSORS_TENSOR_TOO_LARGE`, `SAFETENSORS_OUT_OF_MEMORY`, `signal.reason`
 */
export async function readTensors(
  storage: Storage,
  entries: readonly ReadEntry[],
  options: TransferOptions,
): Promise<Map<string, Tensor>> {
  verifyOpen(storage);
  for (const { name, byteLength } of entries) requireBuffer(storage, name, byteLength);
  const totalBytes = entries.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const bytes = new Map<ReadEntry, Uint8Array<ArrayBuffer>>();
  if (storage.acquireDescriptor === undefined) {
    const transfer = new Transfer(totalBytes, options);
    await runAsync(copyFromStorage(storage, entries, transfer, bytes), transfer.signal);
    transfer.finish();
  } else {
    const lease = storage.acquireDescriptor();
    try {
      const file = { fd: lease.fd, path: storage.path };
      const transfer = new Transfer(totalBytes, options, changeCheck(file));
      const ranges = [...entries].sort((a, b) => a.position - b.position);
      await readRanges(file, ranges, transfer, (entry, buffer) => {
        bytes.set(entry, new Uint8Array(buffer));
      });
    } finally {
      lease.release();
    }
  }
  // An empty tensor was not read.
  const tensorOf = (entry: ReadEntry): Tensor => {
    const { name, dtype, shape } = entry;
    return TensorOf.ofBytes(name, dtype, shape, bytes.get(entry) ?? new Uint8Array(0), storage);
  };
  return new Map(entries.map((entry) => [entry.name, tensorOf(entry)]));
}

function* copyFromStorage(
  storage: Storage,
  entries: readonly ReadEntry[],
  transfer: Transfer,
  bytes: Map<ReadEntry, Uint8Array<ArrayBuffer>>,
): Work<void> {
  const { path } = storage;
  for (const entry of entries) {
    yield;
    const { name, position, byteLength } = entry;
    const copy = allocate(Uint8Array, byteLength, {
      path,
      tensor: name,
    }) as Uint8Array<ArrayBuffer>;
    copy.set(storage.window(position, position + byteLength));
    bytes.set(entry, copy);
    transfer.advance(byteLength);
  }
}
