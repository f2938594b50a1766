/** `serialize`: writes tensors and metadata to memory, as a whole file. */

import { constants } from 'node:buffer';
import { argumentRangeError, requireOptions } from '../../errors/arguments.js';
import { allocate } from '../../errors/out-of-memory.js';
import type { Dtype } from '../../header/dtype.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import { HEADER_OPTIONS, type HeaderOptions, layOut } from '../../header/header-writer.js';
import { readBytesOf, readFully } from '../../platform/io/opened-file.js';
import { runSync } from '../../platform/io/steps.js';
import { memoryEntries, type NamedTensorsInMemory } from '../input/tensor-input.js';
import { BorrowedFiles } from './source-files.js';

/**
 * Returns tensors and metadata as the bytes of a safetensors file, in one buffer, for `parse` to read. The bytes are
 * those of the reference, with metadata sorted by key, so equal input in any order gives equal bytes.
 *
 * Every tensor is copied once, changes in its memory included. A tensor of a file whose bytes were never read is read
 * straight into the result. An open `SafetensorsFile` can be passed as it is.
 *
 * @throws InvalidTensorError `SAFETENSORS_INVALID_TENSOR_VIEW`, `SAFETENSORS_HEADER_TOO_LARGE` for a tensor or
 *   metadata that cannot be written, naming the tensor or the key
 * @throws FileClosedError for a tensor of a file that was closed with `detach`
 * @throws FileChangedError when the file of a tensor changed since it was opened
 * @throws SafetensorsError `SAFETENSORS_OUT_OF_MEMORY` when memory for the result runs out
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for arguments of the wrong kind
 * @throws RangeError `ERR_OUT_OF_RANGE` for an unusable option, and when the result does not fit into
 *   one buffer of the runtime
 *
 * @example
 * ```ts
 * const bytes = serialize({ steps: { dtype: 'I32', shape: [2], data: Int32Array.of(1, 2) } });
 * console.log(parse(bytes).getTensor('steps').data); // → Int32Array(2) [ 1, 2 ]
 * ```
 */
export function serialize<
  const D extends Dtype,
  const ByName extends Readonly<Record<string, Dtype>>,
>(tensors: NamedTensorsInMemory<D, ByName>, options: HeaderOptions = {}): Uint8Array<ArrayBuffer> {
  requireLittleEndianHost();
  requireOptions(options, HEADER_OPTIONS);
  const { header, placed, byteLength } = layOut(
    memoryEntries(tensors as NamedTensorsInMemory),
    options,
  );
  if (byteLength > constants.MAX_LENGTH) {
    const expected = `at most ${constants.MAX_LENGTH} bytes, as one buffer of this runtime holds`;
    throw argumentRangeError('the result', expected, byteLength);
  }
  const sources = new BorrowedFiles(placed.map(({ spec }) => spec));
  try {
    const result = allocate(Uint8Array, byteLength, {});
    result.set(header);
    const data = result.subarray(header.byteLength);
    for (const { spec, begin, end } of placed) {
      const { payload } = spec;
      if (payload.kind === 'memory') {
        data.set(payload.window(0, spec.byteLength), begin);
        continue;
      }
      const file = sources.fileOf(payload);
      runSync(readFully(readBytesOf(file), data.subarray(begin, end), payload.position, file.path));
    }
    sources.verify();
    return result;
  } finally {
    sources.end();
  }
}
