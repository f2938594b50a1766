/**
 * Writes a new file that replaces another, or is new at its path, in one step: at every moment the path has the old
 * file or the new one, whole.
 *
 * The bytes go to a temporary file in the same folder. Only a killed process or worker leaves it; it can then
 * be deleted.
 */

import { constants, ftruncateSync, lstatSync, openSync } from 'node:fs';
import { addon } from '../../platform/addon/addon.js';
import { retryHere } from '../../platform/io/dropped-files.js';
import { closeQuietly, removeFile, removeQuietly } from '../../platform/io/file-calls.js';
import type { WrittenFile } from '../../platform/io/file-writes.js';
import { closeAsync, fsyncAsync, renameAsync } from '../../platform/io/pool-calls.js';
import { aboutFile, hasCode } from '../../platform/io/system-errors.js';
import { makeTemporaryName } from '../../platform/io/temporary-names.js';
import { type OldFileCheck, replaceCheckedFile } from './exchange.js';
import { syncFolder } from './folder-sync.js';
import { inUseError } from './in-use.js';
import { type LikeFile, takeOver } from './permissions.js';
import { resolveTarget } from './target.js';

/** Options of a replacement. */
interface ReplacementOptions {
  /** Length of the new file. Disk space for it is reserved before anything is written. */
  readonly byteLength: number;
  /** Whether to sync file and folder, so that the new file survives a loss of power. */
  readonly durable: boolean;
  /** Name of the temporary file, which must not exist; a new name by default. */
  readonly temporaryName?: string | undefined;
  /** The file whose owner and permissions the new one gets; the old file by default. */
  readonly like?: LikeFile | undefined;
  /**
   * Whether the temporary file may exist already, and stays when the replacement fails, for a later download to
   * continue. Its length is the progress, so give a `byteLength` of 0.
   */
  readonly isKept?: boolean | undefined;
  /** Whether the target is a blob of the Hub cache. A link in its place is replaced, not followed. */
  readonly isBlob?: boolean | undefined;
}

/**
 * Returns the flags to open an existing or new file for reading and writing; a symbolic link is refused. Computed on
 * use, because the import must not need Node's modules.
 */
function keptFlags(): number {
  return constants.O_RDWR | constants.O_CREAT | (constants.O_NOFOLLOW ?? 0);
}

/**
 * Opens a temporary file that may exist already. A symbolic or hard link planted at its name would have another of
 * our files overwritten, so such a name is removed.
 */
function openKept(path: Buffer, mode: number): number {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats !== undefined && !(stats.isFile() && stats.nlink === 1)) removeFile(path);
  return retryHere(() => openSync(path, keptFlags(), mode));
}

/** Errors of systems that cannot reserve space, as opposed to a full disk. */
const CANNOT_ALLOCATE: readonly string[] = ['ENOTSUP', 'ENOSYS', 'EINVAL', 'EPERM'];

/** Reserves disk space for a file, where the addon is there to do so. */
async function reserve(fd: number, byteLength: number): Promise<void> {
  await addon()?.allocateAsync(fd, byteLength);
}

/** Explains an error to a caller who wanted to write `label`. */
function replacementError(error: unknown, label: string): unknown {
  return inUseError(error, label) ?? aboutFile(error, label);
}

/** One replacement under way. Ends with `commit` or `discard`. */
export class Replacement implements WrittenFile {
  /** The temporary file, for writing, and for reading what was written. */
  readonly fd: number;
  /** The target as the caller named it, for messages. */
  readonly path: string;
  /** The target, with all links followed. */
  readonly realPath: Buffer;
  readonly #folder: Buffer;
  readonly #options: ReplacementOptions;
  readonly #temporary: Buffer;
  #isOpen = true;
  #isRenamed = false;
  #isKept: boolean;

  private constructor(path: string | Buffer, label: string, options: ReplacementOptions) {
    this.path = label;
    this.#options = options;
    const { isBlob, isKept = false } = options;
    const { path: realPath, folder, stats } = resolveTarget(path, label, { isBlob });
    this.realPath = realPath;
    this.#isKept = isKept;
    this.#folder = folder;
    const old = stats === undefined ? undefined : { path: realPath, stats };
    const { temporaryName = makeTemporaryName(), like = old } = options;
    this.#temporary = Buffer.concat([folder, Buffer.from(temporaryName)]);
    // At no moment may the new file be readable for a user who could not read the old one.
    const mode = like === undefined ? 0o666 : like.stats.mode & 0o600;
    try {
      const temporary = this.#temporary;
      this.fd = isKept
        ? openKept(temporary, mode)
        : retryHere(() => openSync(temporary, 'wx+', mode));
    } catch (error) {
      throw aboutFile(error, label);
    }
    try {
      if (like !== undefined) takeOver(this.fd, like);
    } catch (error) {
      throw this.#failed(error);
    }
  }

  /**
   * Makes the temporary file and reserves its space on the disk, on the thread pool. `label` is the
   * path in messages.
   *
   * @throws `SAFETENSORS_NOT_A_REGULAR_FILE`, `SAFETENSORS_HUB_CACHE_BLOB`, `ENOSPC`, `EDQUOT`,
   * `EFBIG`, errors of opening; no file is left then
   */
  static async open(
    path: string | Buffer,
    label: string,
    options: ReplacementOptions,
  ): Promise<Replacement> {
    const replacement = new Replacement(path, label, options);
    try {
      if (options.byteLength > 0) await reserve(replacement.fd, options.byteLength);
    } catch (error) {
      if (!hasCode(error, CANNOT_ALLOCATE)) throw replacement.#failed(error);
    }
    return replacement;
  }

  /**
   * Truncates the temporary file to this many bytes.
   *
   * @throws errors of the system
   */
  truncate(byteLength: number): void {
    try {
      ftruncateSync(this.fd, byteLength);
    } catch (error) {
      throw aboutFile(error, this.path);
    }
  }

  /**
   * Syncs and closes the temporary file. Call it after the last write. `commit` does it by itself; a caller that
   * writes many files before the first commit calls it to keep fewer descriptors open.
   *
   * @throws errors of the system; `signal.reason`. The temporary file is then deleted
   */
  async finish(signal?: AbortSignal): Promise<void> {
    if (!this.#isOpen) return;
    try {
      if (this.#options.durable) await fsyncAsync(this.fd);
      this.#isOpen = false;
      await closeAsync(this.fd);
    } catch (error) {
      throw this.#failed(error);
    }
    this.#require(() => signal?.throwIfAborted());
  }

  /**
   * Puts the new file into its place. Call it after the last write. Whatever fails, the path has one of the two
   * files, whole, and the temporary file is deleted.
   *
   * `signal` counts until the rename, since syncing a large file takes seconds. With `check`, only a
   * file that passes it is replaced; `letGo` closes the caller's descriptors of that file.
   *
   * @throws `SAFETENSORS_TARGET_IN_USE` on Windows; errors of the system; `signal.reason`; errors of `check`
   */
  async commit(
    signal?: AbortSignal,
    check?: OldFileCheck,
    letGo: () => void = () => {},
  ): Promise<void> {
    await this.finish(signal);
    if (check === undefined) {
      await this.moveTo(this.realPath);
    } else {
      this.#require(() => check(this.realPath));
      this.#replaceChecked(check, letGo);
    }
    if (this.#options.durable) await syncFolder(this.#folder, this.path);
  }

  /**
   * Moves the finished file to another path of its folder, replacing a file or link there. The caller syncs the
   * folder.
   *
   * @throws as `commit`
   */
  async moveTo(path: string | Buffer): Promise<void> {
    try {
      await renameAsync(this.#temporary, path);
    } catch (error) {
      throw this.#failed(error);
    }
    this.#isRenamed = true;
  }

  /**
   * Closes and removes the temporary file, unless it was committed or is kept. Call it when no write is under way.
   * Never throws, so that the caller gets the first error.
   */
  discard(): void {
    if (this.#isOpen) closeQuietly(this.fd);
    if (!this.#isRenamed && !this.#isKept) removeQuietly(this.#temporary);
    this.#isOpen = false;
  }

  /** Gives up a kept temporary file, so that no later download continues it. */
  giveUp(): void {
    this.#isKept = false;
  }

  #replaceChecked(check: OldFileCheck, letGo: () => void): void {
    try {
      // From here on the temporary path may lead to another process's file.
      this.#isRenamed = true;
      replaceCheckedFile(this.#temporary, this.realPath, check, letGo);
    } catch (error) {
      throw this.#failed(error);
    }
  }

  /** Passes an error of the check on unchanged, even if it looks like an error of the system. */
  #require(check: () => void): void {
    try {
      check();
    } catch (reason) {
      this.discard();
      throw reason;
    }
  }

  #failed(error: unknown): unknown {
    this.discard();
    return replacementError(error, this.path);
  }
}
