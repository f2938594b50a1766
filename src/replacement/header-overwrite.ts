/**
 * New header bytes over the old ones, in the file itself. A process that dies meanwhile leaves a
 * header that is half old and half new; so the old one stands in a file beside it, `<file>` and
 * `.header-backup`, until the new one is on the disk.
 */

import { randomBytes } from 'node:crypto';
import { closeSync, fsync, linkSync, lstatSync, openSync, renameSync, rmSync } from 'node:fs';
import { promisify } from 'node:util';
import { SafetensorsError } from '../errors/errors.js';
import { type WrittenFile, writeViews } from '../io/file-copy.js';
import { aboutFile, hasCode } from '../io/system-errors.js';
import type { Transfer } from '../io/transfer.js';
import { writeFrom, writePieces } from '../io/write-pieces.js';
import { syncFolder } from './folder-sync.js';
import type { ReplacementTarget } from './target.js';

/** What the name of a backup ends with. */
const BACKUP_SUFFIX = '.header-backup';

/** File systems without hard links. */
const CANNOT_LINK: readonly string[] = ['EPERM', 'ENOTSUP', 'ENOSYS', 'EOPNOTSUPP'];

const fsyncAsync = promisify(fsync);

/** What is overwritten, and how. */
export interface HeaderOverwrite {
  readonly target: ReplacementTarget;
  /** A descriptor on the target, for writing; it stays the caller's. */
  readonly file: WrittenFile;
  /** The first bytes of the file, and those that take their place: of one length. */
  readonly before: Uint8Array;
  readonly after: Uint8Array;
  /** Called right before the first byte is written; throws when the file changed. */
  readonly check: () => void;
  /** Whether backup, file and folder are synced. */
  readonly durable: boolean;
}

function backupOf(target: ReplacementTarget): Buffer {
  return Buffer.concat([target.path, Buffer.from(BACKUP_SUFFIX)]);
}

/** As a shell takes it. */
function quoted(path: Buffer): string {
  return `'${path.toString().replaceAll("'", "'\\''")}'`;
}

function interrupted(target: ReplacementTarget, label: string): SafetensorsError {
  const backup = quoted(backupOf(target));
  return new SafetensorsError(
    'SAFETENSORS_EDIT_INTERRUPTED',
    'expected no backup of the header beside the file, found one: an edit in place is under way, or ' +
      'was interrupted. If the file was not replaced since, put the old header back with ' +
      `\`dd if=${backup} of=${quoted(target.path)} conv=notrunc\`; then delete the backup`,
    { path: label },
  );
}

/** Throws `SAFETENSORS_EDIT_INTERRUPTED` when there is a backup: the header may be half a one. */
export function requireNoBackup(target: ReplacementTarget, label: string): void {
  if (lstatSync(backupOf(target), { throwIfNoEntry: false })) throw interrupted(target, label);
}

/**
 * Gives what is written its name in one step, so that a backup is whole whenever there is one. A
 * link, unlike a rename, does not take the place of another edit's backup.
 */
function publish(temporary: Buffer, backup: Buffer): void {
  try {
    linkSync(temporary, backup);
  } catch (error) {
    if (!hasCode(error, CANNOT_LINK)) throw error;
    renameSync(temporary, backup);
  }
}

async function writeBackup(overwrite: HeaderOverwrite): Promise<void> {
  const { target, file, before, durable } = overwrite;
  const name = `.safetensors-mmap-${randomBytes(8).toString('hex')}.tmp`;
  const temporary = Buffer.concat([target.folder, Buffer.from(name)]);
  try {
    // Metadata may be as private as the file.
    const fd = openSync(temporary, 'wx', 0o600);
    try {
      await writeViews({ fd, path: file.path }, [before], 0);
      if (durable) await fsyncAsync(fd);
    } finally {
      closeSync(fd);
    }
    publish(temporary, backupOf(target));
  } catch (error) {
    if (hasCode(error, ['EEXIST'])) throw interrupted(target, file.path);
    throw aboutFile(error, file.path);
  } finally {
    rmSync(temporary, { force: true });
  }
}

async function syncFile({ fd, path }: WrittenFile): Promise<void> {
  try {
    await fsyncAsync(fd);
  } catch (error) {
    throw aboutFile(error, path);
  }
}

async function putBack({ target, file, before, durable }: HeaderOverwrite): Promise<void> {
  try {
    await writeViews(file, [before], 0);
    if (durable) await fsyncAsync(file.fd);
    rmSync(backupOf(target), { force: true });
  } catch {
    // The backup stays, and the error that led here is the one that is seen.
  }
}

/**
 * Overwrites the header. When that fails, or is aborted, the old one is put back; when that fails
 * too, the backup stays.
 *
 * @throws `SAFETENSORS_EDIT_INTERRUPTED` when there is a backup already; errors of the system
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
    rmSync(backupOf(target), { force: true });
    throw error;
  }
  try {
    await writePieces(file, [writeFrom(after, 0)], transfer);
    if (durable) await syncFile(file);
  } catch (error) {
    await putBack(overwrite);
    throw error;
  }
  rmSync(backupOf(target), { force: true });
  if (durable) await syncFolder(target.folder, file.path);
}
