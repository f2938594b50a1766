/** A whole file in memory. */

import { constants } from 'node:buffer';
import { requireLittleEndianHost } from './byte-order.js';
import { argumentRangeError } from './errors.js';
import { type HeaderOptions, layOut } from './header-writer.js';
import type { NamedValues } from './named-values.js';
import { readerOf, readFully } from './opened-file.js';
import type { LendingStorage, LentDescriptor } from './storage.js';
import { type FilePayload, readTensors, type TensorInput } from './tensor-input.js';

/**
 * Tensors and metadata as the bytes of a safetensors file, in one buffer; `parse` is the way back.
 * The bytes are those that the reference writes, metadata sorted by key: equal input in any order
 * gives equal bytes.
 *
 * Every tensor is copied once, with what was written to its memory; one of a file whose bytes were
 * never asked for is read straight into the result. An open `SafetensorsFile` can be given as it is.
 *
 * @throws InvalidTensorError `SAFETENSORS_INVALID_TENSOR_VIEW`, `SAFETENSORS_HEADER_TOO_LARGE` for
 *   what cannot be written, naming the tensor or the key
 * @throws FileClosedError for a tensor of a closed file that had not handed its bytes out
 * @throws FileChangedError when the file of a tensor changed since it was opened
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for arguments of the wrong kind
 * @throws RangeError `ERR_OUT_OF_RANGE` for an unusable option, and when the result does not fit into
 *   one buffer of the runtime
 */
export function serialize(
  tensors: NamedValues<TensorInput>,
  options: HeaderOptions = {},
): Uint8Array<ArrayBuffer> {
  requireLittleEndianHost();
  const { header, placed, byteLength } = layOut(readTensors(tensors), options);
  if (byteLength > constants.MAX_LENGTH) {
    const expected = `at most ${constants.MAX_LENGTH} bytes, as one buffer of this runtime holds`;
    throw argumentRangeError('the result', expected, byteLength);
  }
  const result = new Uint8Array(byteLength);
  result.set(header);
  const data = result.subarray(header.byteLength);
  const files = new FileReads();
  try {
    for (const { spec, begin, end } of placed) {
      const { payload } = spec;
      if (payload.kind === 'file') files.read(payload, data.subarray(begin, end));
      else data.set(payload.window(0, spec.byteLength), begin);
    }
  } finally {
    files.end();
  }
  // A copy must not be half old and half new.
  for (const { spec } of placed) {
    if (spec.payload.kind === 'memory') spec.payload.verify();
  }
  files.verify();
  return result;
}

/** Reads of files that are open; each lends its descriptor once. */
class FileReads {
  readonly #lent = new Map<LendingStorage, LentDescriptor>();

  read({ storage, position }: FilePayload, target: Uint8Array): void {
    let lent = this.#lent.get(storage);
    if (lent === undefined) {
      lent = storage.lend();
      this.#lent.set(storage, lent);
    }
    const { path } = storage;
    readFully(readerOf({ fd: lent.fd, path }), target, position, path);
  }

  end(): void {
    for (const lent of this.#lent.values()) lent.giveBack();
  }

  verify(): void {
    for (const storage of this.#lent.keys()) storage.verify();
  }
}
