/** `verify`. Its code loads on the first call. */

import type { VerifiableSource } from '../file/checkpoint/verify.js';
import type { VerificationReport } from '../file/shards/verification-report.js';
import type { VerifyOptions } from './sources/verify-handle.js';

/**
 * Verifies a checkpoint or a pipeline. Reports every problem, and which tensors were compared with digests.
 *
 * A path means a file, a folder, an index, a Diffusers pipeline or a repository in the Hub cache. Files that cannot be
 * opened are problems, too:
 *
 * - Safetensors: every header; the index against the shards, and `total_size`; missing shards and missing folders of a
 *   pipeline; and the hashes that metadata (`modelspec.hash_sha256`, `sshs_model_hash`, `sshs_legacy_hash`, and
 *   `safetensors-mmap.sha256` of every tensor) and the Hub cache declare. Maps no file. Files that declare hashes are
 *   read once, in pieces of 4 MiB.
 * - PyTorch, NumPy and DDUF files: also the checksums of archives.
 *
 * For a handle, such as a `RemoteCheckpoint`, returns the report of its method `verify()`. The handle stays open.
 * Tensors of remote sources are not read. `openPipeline` throws at the first model that cannot be opened: pass
 * `skipFailed: true` to report all of them.
 *
 * With `values`, also reads all values, as they are stored: tensors with NaN or infinities are problems, and
 * `report.values` lists these, constant and all-zero tensors.
 *
 * With `against`, compares all files of a local copy, whatever their format, with the hashes that the Hub lists, and
 * nothing else: `report.hub` lists changed, missing and extra files. Changed files, and missing ones that the copy
 * needs, are problems. Requests lists only.
 *
 * A file without digests and checksums can be verified only in part: `checks` of the report then lists neither
 * `digests` nor `checksums`, and `files` has the reason.
 *
 * @param source a path, a `file:` URL, or an open checkpoint or pipeline
 * @param options which bytes to compare, `signal` and `onProgress`; for a path, also what to open
 * @returns the report; `ok` is false if there are problems
 *
 * @throws Error Node's own `ENOENT` for a missing path, `EMFILE` and the like; `signal.reason`
 * @throws SafetensorsError `SAFETENSORS_NOT_IN_CACHE`; `SAFETENSORS_FOREIGN_FORMAT` for GGUF; `SAFETENSORS_FILE_CLOSED`
 *   for a closed handle
 * @throws RangeError `ERR_OUT_OF_RANGE` for an option that the source cannot use; with `against: 'origin'` for a copy
 *   of unknown origin
 * @throws RemoteError with `against`
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for any other source; `ERR_INVALID_URL_SCHEME` for an address, which `open`
 *   opens
 *
 * @example
 * ```ts
 * const { ok, problems, files } = await verify('my-model');
 * for (const { file, code, message } of problems) console.log(file, code, message);
 * for (const { file, reason } of files) if (reason !== null) console.log(file, reason);
 * // → model-00001-of-00002.safetensors no-digests
 * // → model-00002-of-00002.safetensors no-digests
 * console.log(ok); // → true
 *
 * const remote = await open('https://models.example/my-model/model.safetensors.index.json');
 * console.log((await verify(remote)).checks); // → [ 'headers', 'index' ]
 * remote.close();
 * ```
 */
export async function verify(
  source: string | URL | Pick<VerifiableSource, 'verify'>,
  options?: VerifyOptions,
): Promise<VerificationReport> {
  const { verifySource } = await import('./verify-source.js');
  return await verifySource(source, options);
}
