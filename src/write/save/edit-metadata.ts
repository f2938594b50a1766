/** `editMetadata`: changes the metadata of a file and leaves its tensors alone. */

import { type BigIntStats, constants, statSync } from 'node:fs';
import { type OptionNames, requireBoolean, requireOptions } from '../../errors/arguments.js';
import { FileChangedError } from '../../errors/errors.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import type { MetadataChanges } from '../../header/metadata-changes.js';
import { closeQuietly, statsOf } from '../../platform/io/file-calls.js';
import { changeCheck, type OpenedFile, openRegularFile } from '../../platform/io/opened-file.js';
import { locate, type PathLike } from '../../platform/io/paths.js';
import { runSync } from '../../platform/io/steps.js';
import { aboutFile } from '../../platform/io/system-errors.js';
import {
  requireTransferOptions,
  TRANSFER_OPTIONS,
  type TransferOptions,
} from '../../platform/transfer/transfer.js';
import { identityOf } from '../replacement/exchange.js';
import {
  inTurn,
  LOCK_OPTIONS,
  type LockOptions,
  MAX_LOCK_TRIES,
  requireLockTimeout,
  tryToLock,
  waitForLock,
} from '../replacement/locks.js';
import { type ReplacementTarget, resolveTarget } from '../replacement/target.js';
import type { EditFlags, MetadataEdit, OpenedEdit, SameFileCheck } from './finish-edit.js';

/** Options of {@link editMetadata}. */
export interface EditMetadataOptions extends TransferOptions, LockOptions {
  /** True overwrites the header in the file itself, if the new one fits. False by default. */
  readonly inPlace?: boolean | undefined;
  /** False does not sync: the change may not survive a loss of power. True by default. */
  readonly durable?: boolean | undefined;
  /** True writes nothing: the result, or the error, is that of the edit. False by default. */
  readonly dryRun?: boolean | undefined;
  /**
   * True reads the file and sets `safetensors-mmap.sha256`, the SHA-256 of every tensor, as `saveFile` does. Sums that
   * the file has must be right, unless `changes` deletes them. Progress counts what is read and what is written. False
   * by default.
   */
  readonly checksums?: boolean | undefined;
  /** True reads the file and sets `modelspec.hash_sha256`, the SHA-256 of all tensors together. False by default. */
  readonly modelspecHash?: boolean | undefined;
}

const EDIT_OPTIONS: OptionNames<EditMetadataOptions> = {
  ...TRANSFER_OPTIONS,
  ...LOCK_OPTIONS,
  inPlace: true,
  durable: true,
  dryRun: true,
  checksums: true,
  modelspecHash: true,
};

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
 * @throws FormatError for a file that is not valid safetensors; `SAFETENSORS_CHECKSUM_MISMATCH` with `checksums` when
 *   sums that the file has are wrong
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
  options: EditMetadataOptions = {},
): Promise<MetadataEdit> {
  const flags = flagsOf(options);
  const { inPlace } = flags;
  const { location, label } = locate(path);
  requireLittleEndianHost(label);
  const finish = async (edit: OpenedEdit): Promise<MetadataEdit> => {
    // Loaded when it is wanted; the file is looked at when `editMetadata` is called.
    const { finishEdit } = await import('./finish-edit.js');
    return await finishEdit(edit, changes, options);
  };
  const key = resolveTarget(location, label).path.toString('latin1');
  return await inTurn(key, options.signal, async () => {
    for (let tries = 1; ; tries++) {
      const target = resolveTarget(location, label);
      const { fd } = openTarget(target, label, inPlace ? constants.O_RDWR : constants.O_RDONLY);
      const close = closeOnce(fd);
      try {
        if (!tryToLock(fd, label)) await waitForLock(fd, label, options);
        const stats = statsOf({ fd, path: label });
        const { size, mtimeNs } = stats;
        const file = { fd, path: label, byteLength: Number(size), mtimeNs };
        // The previous holder of the lock may have put another file here, which has a lock of its own.
        if (isFileAt(target.path, stats) || tries === MAX_LOCK_TRIES)
          return await finish({ target, file, close, flags, check: sameFileCheck(file) });
      } finally {
        close();
      }
    }
  });
}

function closeOnce(fd: number): () => void {
  let isOpen = true;
  return () => {
    if (isOpen) closeQuietly(fd);
    isOpen = false;
  };
}

function flagsOf(options: EditMetadataOptions): EditFlags {
  requireOptions(options, EDIT_OPTIONS);
  requireTransferOptions(options);
  requireLockTimeout(options);
  const { inPlace = false, durable = true, dryRun = false } = options;
  const { checksums = false, modelspecHash = false } = options;
  const flags: EditFlags = { inPlace, durable, dryRun, checksums, modelspecHash };
  for (const [name, value] of Object.entries(flags)) requireBoolean(name, value);
  return flags;
}

function openTarget(target: ReplacementTarget, label: string, access: number): OpenedFile {
  try {
    return runSync(openRegularFile(target.path, label, access));
  } catch (error) {
    throw aboutFile(error, label);
  }
}

/** Whether a path leads to the file. */
function isFileAt(path: Buffer, file: BigIntStats): boolean {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found !== undefined && identityOf(found) === identityOf(file);
}

function sameFileCheck({ fd, path: label }: OpenedFile): SameFileCheck {
  const checkContent = changeCheck({ fd, path: label });
  const stats = statsOf({ fd, path: label });
  const place = (path: Buffer): void => {
    if (isFileAt(path, stats)) return;
    const message = 'another file took the place of this one while it was edited; edit it again';
    throw new FileChangedError(message, { path: label });
  };
  const placeAndContent = (path: Buffer): void => {
    checkContent();
    place(path);
  };
  return { place, placeAndContent };
}
