/** Files that downloads leave next to a target: partial files, and records of finished ones. */

import { constants, openSync } from 'node:fs';
import { readdir, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { closeQuietly, openPath, removeFile, statOpened } from '../../platform/io/file-calls.js';
import { readOpened, writeNewFile } from '../../platform/io/small-files.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { DownloadNames } from '../../platform/io/temporary-names.js';
import { runAsync } from '../../work/work.js';
import { tryToLock } from '../../write/replacement/locks.js';
import type { DownloadItemInfo } from './download-item.js';
import { beginHash, hashStart } from './file-hash.js';

/** The record of a finished file. */
interface DownloadRecord {
  /** As `DownloadItemInfo.version`. */
  readonly version: string;
  /** SHA-256 of the file. */
  readonly hash: string;
}

/** Longest record that downloads write. */
const MAX_RECORD_BYTE_LENGTH = 65_536;

/**
 * Name of the temporary file for a file by its path below the target's folder, in which both are; undefined if a
 * later download could not identify its contents.
 */
export function partialNameOf(name: string, { version }: DownloadItemInfo): string | undefined {
  return version === null ? undefined : new DownloadNames(name).partial(version);
}

/** Deletes partial files of other versions, unless their downloads are running. */
export async function deleteOtherPartials(
  folder: string,
  name: string,
  planned: DownloadItemInfo,
): Promise<void> {
  const names = new DownloadNames(name);
  const kept = partialNameOf(name, planned);
  const others = (await readdir(folder)).filter((name) => names.isPartial(name) && name !== kept);
  for (const name of others) deleteIdle(join(folder, name));
}

/** Deletes a partial file under its lock: a process that waits for the lock finds the file gone and starts again. */
function deleteIdle(path: string): void {
  let fd: number;
  try {
    fd = openSync(path, 'r+');
  } catch {
    return;
  }
  try {
    if (tryToLock(fd, path)) removeFile(path);
  } finally {
    closeQuietly(fd);
  }
}

/**
 * Whether the planned file is at the path, with its length and the hash from the Hub or from the record of an earlier
 * download. Reads the whole file.
 */
export async function isAlreadyThere(
  path: string,
  planned: DownloadItemInfo,
  signal: AbortSignal | undefined,
): Promise<boolean> {
  const { byteLength } = planned;
  const expected = planned.hash ?? (await notedHash(path, planned));
  if (expected === undefined) return false;
  const fd = await openIfThere(path);
  if (fd === undefined) return false;
  try {
    const file = { fd, path };
    const stats = await runAsync(statOpened(file), undefined);
    if (!stats.isFile() || Number(stats.size) !== byteLength) return false;
    const hash = beginHash(expected, byteLength);
    await hashStart(hash, file, byteLength, signal);
    return hash.digest('hex') === expected;
  } finally {
    closeQuietly(fd);
  }
}

/** Opens a path for reading, without hanging on a FIFO. */
async function openIfThere(path: string): Promise<number | undefined> {
  const flags = constants.O_RDONLY | (constants.O_NONBLOCK ?? 0);
  try {
    return await runAsync(openPath(path, flags), undefined);
  } catch (error) {
    if (hasCode(error, ['ENOENT', 'ENOTDIR', 'ENXIO', 'ENAMETOOLONG'])) return undefined;
    throw error;
  }
}

/** The hash that a record has for this version. */
export async function notedHash(
  path: string,
  { version }: DownloadItemInfo,
): Promise<string | undefined> {
  if (version === null) return undefined;
  const fd = await openIfThere(recordPath(path)).catch(() => undefined);
  if (fd === undefined) return undefined;
  try {
    const file = { fd, path };
    const stats = await runAsync(statOpened(file), undefined);
    if (!stats.isFile() || stats.size > MAX_RECORD_BYTE_LENGTH) return undefined;
    const text = (await runAsync(readOpened(file), undefined)).toString();
    const record: Partial<DownloadRecord> = Object(JSON.parse(text));
    return record.version === version ? record.hash : undefined;
  } catch {
    // Downloads write no such record.
    return undefined;
  } finally {
    closeQuietly(fd);
  }
}

/**
 * Records the file about to be put at the path, unless the Hub's hash identifies it; otherwise removes the old
 * record. Ignores failures, such as a folder of the same name: without a right record the file is only fetched again.
 */
export async function note(path: string, planned: DownloadItemInfo, hash: string): Promise<void> {
  const { version } = planned;
  if (planned.hash !== null || version === null) return await forget(path);
  const record: DownloadRecord = { version, hash };
  await forget(path);
  try {
    await writeNewFile(recordPath(path), `${JSON.stringify(record)}\n`, { durable: false });
  } catch {
    // Another download of the file may have just written its record.
  }
}

/** Removes the record of a file, if that is possible. */
export async function forget(path: string): Promise<void> {
  await rm(recordPath(path), { force: true }).catch(() => {});
}

function recordPath(path: string): string {
  return join(dirname(path), new DownloadNames(basename(path)).record);
}
