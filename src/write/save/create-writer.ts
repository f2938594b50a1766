/** `createWriter`. Its code loads on the first call. */

import type { NamedValues } from '../../errors/named-values.js';
import type { TensorSpec } from '../../header/tensor-spec.js';
import type { PathLike } from '../../platform/io/paths.js';
import type { FetchableTensors } from '../input/fetched-tensors.js';
import type { SafetensorsWriter, WriterOptions } from './writer.js';

/**
 * Begins a file. `specs` declares all tensors by dtype and shape, or is a checkpoint with the same tensors (a remote
 * one after `await tensors()`); the header is written at once; `writer.write`
 * then takes their bytes, in any order. They go to a temporary file next to the target; its disk space is reserved
 * first. `writer.close()` renames it into place; until then the path has the old file, or no file. Links are
 * followed, and an old file's permissions kept. The bytes are those of `serialize` with the same tensors.
 *
 * End a writer with `close()` or `abort()`; `await using` aborts it unless it was closed.
 *
 * @throws InvalidTensorError for invalid dtypes, shapes, names and metadata, and `SAFETENSORS_HEADER_TOO_LARGE`
 * @throws SafetensorsError `SAFETENSORS_HUB_CACHE_BLOB`, `SAFETENSORS_NOT_A_REGULAR_FILE`
 * @throws TypeError `ERR_INVALID_ARG_TYPE`, RangeError `ERR_OUT_OF_RANGE` for unusable arguments
 * @throws Error Node's own `ENOENT`, `ENOSPC` and the like. Nothing is left after an error
 *
 * @example
 * ```ts
 * const writer = await createWriter('new.safetensors', { weight: { dtype: 'F32', shape: [2] } });
 * await writer.write('weight', Float32Array.of(1, 2));
 * await writer.close();
 * console.log(loadFile('new.safetensors').get('weight')?.data); // → Float32Array(2) [ 1, 2 ]
 * ```
 */
export async function createWriter(
  path: PathLike,
  specs: NamedValues<TensorSpec> | FetchableTensors,
  options?: WriterOptions,
): Promise<SafetensorsWriter> {
  const { createWriter: begin } = await import('./writer.js');
  return await begin(path, specs, options);
}
