/** `verifyCheckpoint`. Its code loads on the first call. */

import type { VerifiableSource } from '../file/checkpoint/verify.js';
import type { VerificationReport } from '../file/shards/verification-report.js';
import type { VerifyOptions } from './verify-checkpoint.js';

/**
 * Lists every problem of a checkpoint, and which of its tensors were compared with digests.
 *
 * A path means a file, a checkpoint, a Diffusers pipeline or a repository in the Hub cache:
 *
 * - Safetensors: headers, index and shards both ways, `total_size`, shards that are missing or cannot be read, folders
 *   that a pipeline names and that are missing, and the hashes that metadata (`modelspec.hash_sha256`,
 *   `sshs_model_hash`, `sshs_legacy_hash`, `safetensors-mmap.sha256` of every tensor) and the Hub cache declare. Maps
 *   nothing; files that declare hashes are read once, in pieces of 4 MiB.
 * - PyTorch, NumPy and DDUF files: the checksums of archives, too.
 *
 * A file without digests and checksums can be verified only in part: `checks` of the report then lists neither
 * `hashes` nor `checksums`, and `files` has the reason.
 *
 * A function opens anything else, such as an address with `open`, whose tensors are not read. Its result is
 * verified by `verify()`, and closed; an error of this package that it throws is the problem, or has all problems. Pass
 * `toVerify: true` to `openPipeline`, which otherwise stops at the first shard or model
 * that is missing or bad.
 *
 * @throws Error for other failures: Node's own `ENOENT` for a missing path, `EMFILE` and the like;
 *   `SAFETENSORS_NOT_IN_CACHE`; `SAFETENSORS_FOREIGN_FORMAT` for GGUF; RangeError for an option that the format has no
 *   use for; `signal.reason`
 *
 * @example
 * ```ts
 * const { ok, problems, files } = await verifyCheckpoint('my-model');
 * for (const { file, code, message } of problems) console.log(file, code, message);
 * for (const { file, reason } of files) if (reason !== null) console.log(file, reason);
 * // → model-00001-of-00002.safetensors no-digests
 * // → model-00002-of-00002.safetensors no-digests
 * console.log(ok); // → true
 *
 * const { checks } = await verifyCheckpoint('model.ckpt');
 * console.log(checks); // → [ 'headers', 'checksums' ]
 * ```
 */
export async function verifyCheckpoint(
  source: string | URL | (() => VerifiableSource | Promise<VerifiableSource>),
  options?: VerifyOptions,
): Promise<VerificationReport> {
  const { verifyCheckpoint: verify } = await import('./verify-checkpoint.js');
  return await verify(source, options);
}
