/** `editMetadata`. Its code loads on the first call. */

import type { MetadataChanges } from '../../header/metadata-changes.js';
import type { PathLike } from '../../platform/io/paths.js';
import type { EditMetadataOptions, MetadataEdit } from './edit-metadata.js';

/**
 * Sets and deletes keys of a file's metadata: `changes` has new values by key, and null for keys to
 * delete. The rest of the header and the tensors stay as they are, byte for byte. Keys are written
 * sorted. Deleting the last one leaves `{}`.
 *
 * By default the path has the old file or the new one at every moment, whole: the kernel copies the
 * data to a temporary file in the same folder, which is then renamed. Links are followed. The header
 * keeps its length if the new one fits; else the data begins at a multiple of the same power of two as
 * before, from 8 bytes to 2 MiB.
 *
 * Edits of one file wait for each other, across processes too, so that no edit undoes another. They use a lock, which
 * the system releases when a process dies. On a file system without locks (NFS), or without the addon, an edit fails
 * when it finds the file replaced, but it can miss a replacement at the last moment.
 *
 * `inPlace: true` overwrites the header if the padding at its end leaves room, and copies no data. **This is not
 * crash-safe**: if the process or machine dies meanwhile, the header is half old and half new. The old header stays
 * in `<file>.header-backup` until the new one is synced. `dd if=<file>.header-backup of=<file> conv=notrunc` puts it
 * back; then delete the backup. For a name of more than 241 bytes the backup gets a short name, which the error gives.
 * Open handles of the file throw `SAFETENSORS_FILE_CHANGED` after the edit.
 *
 * A file with sums of its tensors is compared with these before it is copied, unless the edit deletes or changes them.
 *
 * @throws FormatError for a file that is not valid safetensors; `SAFETENSORS_CHECKSUM_MISMATCH` when sums that the file
 *   has are wrong
 * @throws InvalidTensorError for a key given twice or a lone surrogate, and
 *   `SAFETENSORS_HEADER_TOO_LARGE`
 * @throws SafetensorsError `SAFETENSORS_HEADER_FULL` when the header does not fit in place, with the
 *   number of missing bytes; `SAFETENSORS_EDIT_INTERRUPTED` when there is a backup;
 *   `SAFETENSORS_HUB_CACHE_BLOB`, `SAFETENSORS_NOT_A_REGULAR_FILE`, `SAFETENSORS_TARGET_IN_USE`,
 *   `SAFETENSORS_LOCKED` when another process edits the file for longer than `lockTimeout`
 * @throws FileChangedError when the file is changed or replaced meanwhile, other than by an edit
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for arguments of the wrong kind
 * @throws Error Node's own `ENOENT`, `ENOSPC` and the like; `signal.reason` when it was aborted. The
 *   file is as it was, except after an error of syncing the folder, which comes last
 *
 * @example
 * ```ts
 * const changes = { license: 'mit', format: null }; // sets one key, deletes the other
 * const { method, metadata } = await editMetadata('model.safetensors', changes);
 * console.log(method, metadata); // → rewritten Map(1) { 'license' => 'mit' }
 * ```
 */
export async function editMetadata(
  path: PathLike,
  changes: MetadataChanges,
  options?: EditMetadataOptions,
): Promise<MetadataEdit> {
  const { editMetadata: edit } = await import('./edit-metadata.js');
  return await edit(path, changes, options);
}
