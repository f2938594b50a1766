/**
 * Overwrites the header of a file in place. If the process dies meanwhile, the header is half old and half new, so
 * the old header stays in a backup next to the file until the new one is on the disk.
 */

import { closeSync, linkSync, lstatSync, openSync, renameSync } from 'node:fs';
import { SafetensorsError } from '../../errors/errors.js';
import { retryHere } from '../../platform/io/dropped-files.js';
import { removeFile, removeQuietly } from '../../platform/io/file-calls.js';
import { type WrittenFile, writeViews } from '../../platform/io/file-writes.js';
import { fsyncAsync } from '../../platform/io/pool-calls.js';
import { aboutFile, hasCode } from '../../platform/io/system-errors.js';
import { headerBackupOf, makeTemporaryName } from '../../platform/io/temporary-names.js';
import { writeFrom, writePieces } from '../../platform/io/write-pieces.js';
import type { Transfer } from '../../work/transfer.js';
import { syncFolder } from './folder-sync.js';
import type { ReplacementTarget } from './target.js';

/** Errors of file systems without hard links. */
const NO_HARD_LINKS: readonly string[] = ['EPERM', 'ENOTSUP', 'ENOSYS', 'EOPNOTSUPP'];

/** The header to overwrite, and how. */
interface HeaderOverwrite {
  readonly target: ReplacementTarget;
  /** A descriptor on the target, for writing. The caller closes it. */
  readonly file: WrittenFile;
  /** The first bytes of the file, and as many to replace them. */
  readonly before: Uint8Array;
  readonly after: Uint8Array;
  /** Called right before the first byte is written. Throws when the file changed. */
  readonly check: () => void;
  /** Whether to sync backup, file and folder. */
  readonly durable: boolean;
}

/** Quotes a path for a shell. */
function shellQuoted(path: Buffer): string {
  return `'${path.toString().replaceAll("'", "'\\''")}'`;
}

function interruptedEdit(target: ReplacementTarget, label: string): SafetensorsError {
  return new SafetensorsError(
    'SAFETENSORS_EDIT_INTERRUPTED',
    'expected no backup of the header next to the file, found one: an edit in place is under way, or ' +
      'was interrupted. If the file was not replaced since, put the old header back with ' +
      `\`dd if=${shellQuoted(headerBackupOf(target))} of=${shellQuoted(target.path)} conv=notrunc\`; then delete the ` +
      'backup',
    { path: label },
  );
}

/** Throws `SAFETENSORS_EDIT_INTERRUPTED` when a backup exists: the header may be half old. */
export function requireNoBackup(target: ReplacementTarget, label: string): void {
  const isThere = lstatSync(headerBackupOf(target), { throwIfNoEntry: false }) !== undefined;
  if (isThere) throw interruptedEdit(target, label);
}

/**
 * Gives the backup its name only after writing all of it, so that a backup is always whole. A link, unlike a rename,
 * fails when another edit has a backup.
 */
function publish(temporary: Buffer, backup: Buffer): void {
  try {
    linkSync(temporary, backup);
  } catch (error) {
    if (!hasCode(error, NO_HARD_LINKS)) throw error;
    renameSync(temporary, backup);
  }
}

async function writeBackup({ target, file, before, durable }: HeaderOverwrite): Promise<void> {
  const temporary = Buffer.concat([target.folder, Buffer.from(makeTemporaryName())]);
  let isPublished = false;
  try {
    // Metadata may be as private as the file.
    const fd = retryHere(() => openSync(temporary, 'wx', 0o600));
    try {
      await writeViews({ fd, path: file.path }, [before], 0);
      if (durable) await fsyncAsync(fd);
    } finally {
      closeSync(fd);
    }
    publish(temporary, headerBackupOf(target));
    isPublished = true;
    removeFile(temporary);
  } catch (error) {
    removeQuietly(temporary);
    if (isPublished) removeQuietly(headerBackupOf(target));
    if (hasCode(error, ['EEXIST'])) throw interruptedEdit(target, file.path);
    throw aboutFile(error, file.path);
  }
}

function removeBackup({ target }: HeaderOverwrite): void {
  removeFile(headerBackupOf(target));
}

async function writeBack(overwrite: HeaderOverwrite): Promise<void> {
  const { file, before, durable } = overwrite;
  try {
    await writeViews(file, [before], 0);
    if (durable) await fsyncAsync(file.fd);
    removeBackup(overwrite);
  } catch {
    // The backup stays. The caller gets the first error.
  }
}

/**
 * Overwrites the header. When that fails or is aborted, the old header is put back; when that fails
 * too, the backup stays.
 *
 * @throws `SAFETENSORS_EDIT_INTERRUPTED` when a backup exists already; errors of the system
 */
export async function overwriteHeader(
  overwrite: HeaderOverwrite,
  transfer: Transfer,
): Promise<void> {
  const { target, file, after, check, durable } = overwrite;
  await writeBackup(overwrite);
  try {
    if (durable) await syncFolder(target.folder, file.path);
    check();
  } catch (error) {
    removeBackup(overwrite);
    throw error;
  }
  try {
    await writePieces(file, [writeFrom(after, 0)], transfer);
    if (durable) await syncFile(file);
  } catch (error) {
    await writeBack(overwrite);
    throw error;
  }
  removeBackup(overwrite);
  if (durable) await syncFolder(target.folder, file.path);
}

async function syncFile({ fd, path }: WrittenFile): Promise<void> {
  try {
    await fsyncAsync(fd);
  } catch (error) {
    throw aboutFile(error, path);
  }
}
