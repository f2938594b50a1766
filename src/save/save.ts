/** Tensors and metadata as a file, which takes the place of another in one step. */

import { requireBoolean, requireOptions } from '../errors/arguments.js';
import { requireLittleEndianHost } from '../format/dtype.js';
import { type HeaderOptions, layOut } from '../format/header-writer.js';
import type { NamedValues } from '../format/named-values.js';
import { locate, type PathLike } from '../io/paths.js';
import { Transfer, type TransferOptions } from '../io/transfer.js';
import { Replacement, type ReplacementOptions } from '../replacement/replacement.js';
import { SourceFiles } from './source-files.js';
import type { TensorBytes } from './tensor-bytes.js';
import { readTensors, readTensorsAndStreams, type TensorInput } from './tensor-input.js';
import type { TensorStream } from './tensor-stream.js';
import { writeLayout, writeLayoutSync } from './tensor-writes.js';

/** Options of {@link saveFileSync}. */
export interface SaveSyncOptions extends HeaderOptions {
  /**
   * Whether file and folder are synced, so that the new file survives a loss of power; true by
   * default. Without it the disk writes when it likes, which returns earlier and may leave, after a
   * loss of power only, a file without its content.
   */
  readonly durable?: boolean | undefined;
}

/** Options of {@link saveFile}. */
export interface SaveOptions extends SaveSyncOptions, TransferOptions {}

/**
 * Writes tensors and metadata to a file, off the event loop: the bytes of `serialize`.
 *
 * They go to a temporary file in the same folder, which then takes the path's place: at every moment
 * the path has the old file or the new one, whole, and whatever fails leaves the old one; only an
 * error of syncing the folder comes when the new one is there. Files that are open or mapped stay what
 * they were, also when the tensors come from the one that is replaced.
 * Permissions are those of the old file, else as the umask has them; a link is followed. What is
 * wrong with the arguments, and a full disk, is found before anything is written.
 *
 * Tensors of an open file whose bytes were never asked for are copied by the kernel; all others are
 * written from their memory with what was changed in it, and must not be changed until the promise
 * settles. `data` of a new tensor can also be a stream, or a function that gives one, which is asked
 * for bytes when its turn comes: one at a time, in the order of the file. A stream that fails, or is
 * left early, is ended; one whose turn does not come is left alone.
 *
 * @throws InvalidTensorError `SAFETENSORS_INVALID_TENSOR_VIEW`, `SAFETENSORS_HEADER_TOO_LARGE` for
 *   what cannot be written, also a stream with more or fewer bytes than its shape has
 * @throws FileChangedError when a file that tensors come from has another size or header than when it
 *   was opened, or gets another size or modification time meanwhile
 * @throws FileClosedError for a tensor of a closed file that had not handed its bytes out, or whose
 *   bytes were detached meanwhile
 * @throws SafetensorsError `SAFETENSORS_HUB_CACHE_BLOB`, `SAFETENSORS_NOT_A_REGULAR_FILE`,
 *   `SAFETENSORS_TARGET_IN_USE` for a target that is not replaced
 * @throws Error Node's own `ENOSPC`, `EDQUOT`, `EFBIG`, `EACCES`, `ENOENT` and the like, with the path
 *   as it was given; `signal.reason` when it was aborted before the file took its place
 * @throws TypeError, RangeError for arguments of the wrong kind
 */
export async function saveFile(
  path: PathLike,
  tensors: NamedValues<TensorInput<TensorBytes | TensorStream>>,
  options: SaveOptions = {},
): Promise<void> {
  requireLittleEndianHost();
  const { location, label } = locate(path);
  const durable = durableOf(options);
  const layout = layOut(readTensorsAndStreams(tensors), options);
  const { byteLength, placed } = layout;
  const transfer = new Transfer(byteLength, options);
  transfer.signal?.throwIfAborted();
  const sources = new SourceFiles(placed.map(({ spec }) => spec));
  try {
    const replacement = await Replacement.open(location, label, { byteLength, durable });
    try {
      await writeLayout(replacement, layout, sources, transfer);
      sources.verify();
      transfer.finish();
      await replacement.commit(transfer.signal);
    } finally {
      replacement.discard();
    }
  } finally {
    sources.end();
  }
}

/**
 * The same on this thread, which waits for the disk meanwhile. Writes one tensor after the other, and
 * reads those of open files through a buffer. Streams are a TypeError.
 *
 * @throws As {@link saveFile}
 */
export function saveFileSync(
  path: PathLike,
  tensors: NamedValues<TensorInput>,
  options: SaveSyncOptions = {},
): void {
  requireLittleEndianHost();
  const { location, label } = locate(path);
  const durable = durableOf(options);
  const layout = layOut(readTensors(tensors), options);
  const { byteLength, placed } = layout;
  const sources = new SourceFiles(placed.map(({ spec }) => spec));
  try {
    const replacement = Replacement.openSync(location, label, { byteLength, durable });
    try {
      writeLayoutSync(replacement, layout, sources);
      sources.verify();
      replacement.commitSync();
    } finally {
      replacement.discard();
    }
  } finally {
    sources.end();
  }
}

function durableOf(options: SaveSyncOptions): ReplacementOptions['durable'] {
  requireOptions(options);
  const { durable = true } = options;
  requireBoolean('durable', durable);
  return durable;
}
