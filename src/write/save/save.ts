/** `saveFile`: writes tensors and metadata to a file, which replaces the old one in one step. */

import {
  type OptionNames,
  requireBoolean,
  requireOptions,
  requirePathFirst,
} from '../../errors/arguments.js';
import type { Dtype } from '../../header/dtype.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import {
  HEADER_OPTIONS,
  type HeaderOptions,
  layOutYielding,
  takeMetadata,
} from '../../header/header-writer.js';
import { locate, type PathLike } from '../../platform/io/paths.js';
import { forEachYielding } from '../../work/items.js';
import { TRANSFER_OPTIONS, type TransferOptions } from '../../work/transfer.js';
import { runAsync, type Work } from '../../work/work.js';
import { rejectBlocks } from '../input/block-tensors.js';
import { type FetchableTensors, fetchedTensors, isFetchable } from '../input/fetched-tensors.js';
import { metadataFor } from '../input/given-checkpoint.js';
import { GivenTensors } from '../input/given-tensors.js';
import type { NamedTensors } from '../input/tensor-input.js';
import { requireNotInUse } from '../replacement/in-use.js';
import { EarlyLease, type LeasedFiles } from './leased-files.js';
import { replaceFile } from './replace-file.js';
import type { WritableLayout } from './tensor-writes.js';

/** What every writer of files takes. */
export interface FileWriteOptions {
  /**
   * True syncs file and folder, so the new file survives a loss of power. False returns earlier, and a
   * loss of power may leave a file without its content. True by default.
   */
  readonly durable?: boolean | undefined;
  /**
   * True writes the SHA-256 of every tensor's bytes into the metadata, as `safetensors-mmap.sha256`: 64 hexadecimal
   * digits a tensor, in the order of their bytes. They are computed while the bytes are copied, of long files on
   * separate threads that read what was written, and written last. `verify` compares them. False by default.
   */
  readonly digests?: boolean | undefined;
}

/** Options of {@link saveFile}. */
export interface SaveOptions extends HeaderOptions, FileWriteOptions, TransferOptions {}

const SAVE_OPTIONS: OptionNames<SaveOptions> = {
  ...HEADER_OPTIONS,
  durable: true,
  digests: true,
  ...TRANSFER_OPTIONS,
};

/**
 * Writes tensors and metadata to a file, off the event loop. The bytes are those of `serialize`. The arguments are read
 * in the turn of the call, which takes 30 to 70 ms for 100,000 tensors; all other work yields.
 *
 * They go to a temporary file in the same folder, which is then renamed: at every moment the path has the old file or
 * the new one, whole. An error leaves the old file, except an error of syncing the folder, which comes after the
 * rename. Open and mapped files keep their content, even when the tensors come from the file being replaced. The new
 * file gets the permissions of the old one, else those of the umask. Links are followed. Wrong arguments and a full
 * disk are found before anything is written.
 *
 * The kernel copies tensors of an open file whose bytes were never read. All others are written from memory, changes
 * included; don't modify them until the promise settles. `data` of a new tensor can also be a stream, or a function
 * that returns one. Streams are read one at a time, in the order of the file. A stream that fails or is left early is
 * ended; a stream whose turn has not come is left untouched. The tensors may be those of a checkpoint, also of a view:
 * of a remote one each is fetched when its turn comes.
 *
 * @throws InvalidTensorError `SAFETENSORS_INVALID_TENSOR_VIEW`, `SAFETENSORS_HEADER_TOO_LARGE` for a tensor that
 *   cannot be written, including a stream with more or fewer bytes than its shape needs
 * @throws The problems of a checkpoint whose tensors are not all readable: select the others by their names
 * @throws FileChangedError when a file that tensors come from has changed since it was opened, or
 *   changes meanwhile
 * @throws FileClosedError for a tensor of a file that was closed with `detach`, before or meanwhile
 * @throws SafetensorsError `SAFETENSORS_HUB_CACHE_BLOB`, `SAFETENSORS_NOT_A_REGULAR_FILE`,
 *   `SAFETENSORS_TARGET_IN_USE` for a target that must not or cannot be replaced
 * @throws Error Node's own `ENOSPC`, `EDQUOT`, `EFBIG`, `EACCES`, `ENOENT` and the like, with the path
 *   as it was given; `signal.reason` when it was aborted before the rename
 * @throws TypeError, RangeError for arguments of the wrong kind
 *
 * @example
 * ```ts
 * const file = safeOpen('model.safetensors');
 * await saveFile('new.safetensors', {
 *   'embed.weight': file.getTensor('embed.weight'), // copied by the kernel
 *   step: { dtype: 'I64', shape: [], data: BigInt64Array.of(7n) },
 * });
 * console.log(loadFile('new.safetensors').get('step')?.data); // → BigInt64Array(1) [ 7n ]
 * ```
 */
export async function saveFile<
  const D extends Dtype,
  const ByName extends Readonly<Record<string, Dtype>>,
>(
  path: PathLike,
  tensors: NamedTensors<D, ByName> | FetchableTensors,
  options: SaveOptions = {},
): Promise<void> {
  requireLittleEndianHost();
  requirePathFirst(path, tensors, 'saveFile(path, tensors)');
  requireOptions(options, SAVE_OPTIONS);
  const { durable, digests } = flagsOf(options);
  rejectBlocks(tensors);
  const named = isFetchable(tensors) ? await fetchedTensors(tensors, options.signal) : tensors;
  // The arguments are read and their files leased in this turn: the caller may change or close them afterwards.
  const metadata = metadataFor(tensors, options.metadata);
  const header = { ...options, metadata: metadata && takeMetadata(metadata) };
  const given = new GivenTensors(named as NamedTensors);
  const lease = new EarlyLease(given.stored);
  try {
    // Without the signal: faults of the arguments come before an abort.
    const layout = await runAsync(layOutGiven(given, lease, header, digests), undefined);
    const { location, label } = locate(path);
    requireNotInUse(location, label);
    const sources = (): LeasedFiles => lease.files();
    await replaceFile(path, layout, sources, { ...options, durable, verify: false });
  } finally {
    lease.end();
  }
}

function* layOutGiven(
  given: GivenTensors,
  lease: EarlyLease,
  options: HeaderOptions,
  digests: boolean,
): Work<WritableLayout> {
  const entries = yield* given.entries();
  const layout = yield* layOutYielding(entries, options, digests);
  yield* forEachYielding(entries, ({ payload }) => lease.add(payload));
  return layout;
}

function flagsOf({
  durable = true,
  digests = false,
}: FileWriteOptions): Readonly<Record<'durable' | 'digests', boolean>> {
  requireBoolean('durable', durable);
  requireBoolean('digests', digests);
  return { durable, digests };
}
