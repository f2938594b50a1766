/** Reads tensors into ordinary memory, independent of the file. */

import type { Dtype } from '../format/dtype.js';
import { changeCheck, type FileRange } from '../io/opened-file.js';
import { readRanges } from '../io/parallel-reads.js';
import { Transfer, type TransferOptions } from '../io/transfer.js';
import { type Storage, verifyOpen } from '../storage/storage.js';
import { requireBuffer } from '../tensor/storage-range.js';
import { type Tensor, TensorOf } from '../tensor/tensor.js';

/** A tensor to load: what the header says, and where its bytes are in the file. */
export interface LoadEntry extends FileRange {
  readonly name: string;
  readonly dtype: Dtype;
  readonly shape: readonly number[];
}

/**
 * The tensors by name, in the order given, each with a buffer of its own. From a storage without a
 * file nothing is read: the tensors are views of its memory.
 *
 * @throws FileChangedError when size or modification time change meanwhile
 * @throws FileClosedError, `SAFETENSORS_TENSOR_TOO_LARGE`, `SAFETENSORS_OUT_OF_MEMORY`, `signal.reason`
 */
export async function loadTensors(
  storage: Storage,
  entries: readonly LoadEntry[],
  options: TransferOptions,
): Promise<Map<string, Tensor>> {
  verifyOpen(storage);
  for (const { name, byteLength } of entries) requireBuffer(storage, name, byteLength);
  const totalBytes = entries.reduce((sum, { byteLength }) => sum + byteLength, 0);
  const bytes = new Map<LoadEntry, Uint8Array<ArrayBuffer>>();
  if (storage.lend === undefined) {
    new Transfer(totalBytes, options, () => {}).finish();
    for (const entry of entries) {
      bytes.set(entry, storage.window(entry.position, entry.position + entry.byteLength));
    }
  } else {
    const lent = storage.lend();
    try {
      const file = { fd: lent.fd, path: storage.path };
      const transfer = new Transfer(totalBytes, options, changeCheck(file));
      const ranges = [...entries].sort((a, b) => a.position - b.position);
      await readRanges(file, ranges, transfer, (entry, buffer) => {
        bytes.set(entry, new Uint8Array(buffer));
      });
    } finally {
      lent.giveBack();
    }
  }
  // A tensor without bytes was not read.
  const tensorOf = (entry: LoadEntry): Tensor => {
    const { name, dtype, shape } = entry;
    return TensorOf.ofBytes(name, dtype, shape, bytes.get(entry) ?? new Uint8Array(0), storage);
  };
  return new Map(entries.map((entry) => [entry.name, tensorOf(entry)]));
}
