/**
 * A new file that takes the place of another, or of none, in one step: at every moment the path has
 * the old file or the new one, whole.
 *
 * The bytes go to a temporary file in the same folder, `.safetensors-mmap-<16 hex digits>.tmp`. Only
 * a process or a worker that is killed leaves it behind; it can then be deleted.
 */

import { randomBytes } from 'node:crypto';
import {
  close,
  closeSync,
  fchmodSync,
  fchownSync,
  fsync,
  fsyncSync,
  openSync,
  rename,
  renameSync,
  rmSync,
  type Stats,
} from 'node:fs';
import process from 'node:process';
import { promisify } from 'node:util';
import { addon } from '../addon/addon.js';
import { SafetensorsError } from '../errors/errors.js';
import type { WrittenFile } from '../io/file-copy.js';
import { aboutFile, hasCode } from '../io/system-errors.js';
import { syncFolder, syncFolderSync } from './folder-sync.js';
import { resolveTarget } from './target.js';

/** How a file is replaced. */
export interface ReplacementOptions {
  /** Length of the new file, for which the disk is asked before anything is written. */
  readonly byteLength: number;
  /** Whether file and folder are synced, so that the new file survives a loss of power. */
  readonly durable: boolean;
  /** Name of the temporary file, which must not exist; of the usual form by default. */
  readonly temporaryName?: string | undefined;
  /** The file whose owner and permissions the new one gets; that in its place by default. */
  readonly like?: Stats | undefined;
}

/** Answers that mean "cannot say", not "no room". */
const CANNOT_ALLOCATE: readonly string[] = ['ENOTSUP', 'ENOSYS', 'EINVAL', 'EPERM'];

/** What file systems answer that have no permissions, or the same for all files. */
const CANNOT_CHANGE_MODE: readonly string[] = ['EPERM', 'ENOTSUP', 'ENOSYS'];

/** What Windows answers when the target of a rename is open or mapped. */
const IN_USE: readonly string[] = ['EPERM', 'EACCES', 'EBUSY'];

const closeAsync = promisify(close);
const fsyncAsync = promisify(fsync);
const renameAsync = promisify(rename);

/** What a failed commit means on a platform for whoever wanted to write `label`. */
function commitError(error: unknown, platform: NodeJS.Platform, label: string): unknown {
  if (platform !== 'win32' || !hasCode(error, IN_USE)) return aboutFile(error, label);
  return new SafetensorsError(
    'SAFETENSORS_TARGET_IN_USE',
    'expected a file that can be replaced, found one that is open, mapped or protected; close it ' +
      'with close({ detach: true }), end other programs that use it, and save again',
    { path: label, cause: error },
  );
}

/**
 * Gives the new file owner and permissions of the old one. Owner first: changing it takes
 * permissions away. Where the system keeps us from it, the new file is ours, and set-user-ID bits
 * would then mean something else.
 */
function takeOver(fd: number, { uid, gid, mode }: Stats): void {
  const owned = tryTo(() => fchownSync(fd, uid, gid));
  if (!owned) tryTo(() => fchownSync(fd, -1, gid));
  try {
    fchmodSync(fd, mode & (owned ? 0o7777 : 0o777));
  } catch (error) {
    // File systems without permissions of their own. Elsewhere it is ours, and that cannot happen.
    if (!hasCode(error, CANNOT_CHANGE_MODE)) throw error;
  }
}

function tryTo(action: () => void): boolean {
  try {
    action();
    return true;
  } catch {
    return false;
  }
}

/** One replacement under way; ends with `commit` or `discard`. */
export class Replacement implements WrittenFile {
  /** The temporary file, for writing. */
  readonly fd: number;
  /** The target as the caller named it, for messages. */
  readonly path: string;
  /** The target itself: `path` with all links followed. */
  readonly realPath: Buffer;
  readonly #folder: Buffer;
  readonly #options: ReplacementOptions;
  readonly #temporary: Buffer;
  #isOpen = true;
  #isRenamed = false;

  private constructor(path: string | Buffer, label: string, options: ReplacementOptions) {
    this.path = label;
    this.#options = options;
    const { path: realPath, folder, stats } = resolveTarget(path, label);
    this.realPath = realPath;
    this.#folder = folder;
    // Short whatever the target is called, so that no limit on names is met.
    const { temporaryName, like = stats } = options;
    const name = temporaryName ?? `.safetensors-mmap-${randomBytes(8).toString('hex')}.tmp`;
    this.#temporary = Buffer.concat([folder, Buffer.from(name)]);
    // At no moment can anybody read it who could not read the old one.
    const mode = like === undefined ? 0o666 : like.mode & 0o600;
    try {
      this.fd = openSync(this.#temporary, 'wx', mode);
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
   * Makes the temporary file and asks the disk for its space, on the thread pool. `label` is the
   * path in messages.
   *
   * @throws `SAFETENSORS_NOT_A_REGULAR_FILE`, `SAFETENSORS_HUB_CACHE_BLOB`, `ENOSPC`, `EDQUOT`,
   * `EFBIG`, what `open` throws; nothing is left then
   */
  static async open(
    path: string | Buffer,
    label: string,
    options: ReplacementOptions,
  ): Promise<Replacement> {
    const replacement = new Replacement(path, label, options);
    try {
      if (options.byteLength > 0) await addon()?.allocateAsync(replacement.fd, options.byteLength);
    } catch (error) {
      if (!hasCode(error, CANNOT_ALLOCATE)) throw replacement.#failed(error);
    }
    return replacement;
  }

  /** As `open`, on this thread. */
  static openSync(path: string | Buffer, label: string, options: ReplacementOptions): Replacement {
    const replacement = new Replacement(path, label, options);
    try {
      if (options.byteLength > 0) addon()?.allocate(replacement.fd, options.byteLength);
    } catch (error) {
      if (!hasCode(error, CANNOT_ALLOCATE)) throw replacement.#failed(error);
    }
    return replacement;
  }

  /**
   * Syncs and closes the temporary file, when all its bytes are written and nothing is under way.
   * `commit` does so by itself; where many files are written before the first is put into its place,
   * it saves their descriptors.
   *
   * @throws errors of the system; `signal.reason`. The temporary file is gone then
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
   * Puts the new file into its place, when all its bytes are written and nothing is under way.
   * Whatever fails, the path has one of the two files, whole, and the temporary one is gone.
   *
   * The signal counts as long as the old file is in its place: syncing a large file takes seconds.
   * So does `check`, which throws when the old file must not be replaced any more.
   *
   * @throws `SAFETENSORS_TARGET_IN_USE` on Windows; errors of the system; `signal.reason`; what
   *   `check` throws
   */
  async commit(signal?: AbortSignal, check?: () => void): Promise<void> {
    await this.finish(signal);
    if (check === undefined) {
      await this.moveTo(this.realPath);
    } else {
      // Two that have checked must not both rename: nothing of this thread comes in between.
      this.#require(check);
      this.#renameSync();
    }
    if (this.#options.durable) await syncFolder(this.#folder, this.path);
  }

  /**
   * Gives the finished file another name of its folder than its own, in place of whatever has it, a
   * link too, and leaves it to the caller to sync the folder.
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

  /** As `commit`, on this thread. */
  commitSync(): void {
    const { durable } = this.#options;
    try {
      if (durable) fsyncSync(this.fd);
      this.#isOpen = false;
      closeSync(this.fd);
    } catch (error) {
      throw this.#failed(error);
    }
    this.#renameSync();
    if (durable) syncFolderSync(this.#folder, this.path);
  }

  /**
   * Closes and removes the temporary file, unless it is in its place. To be called when no write is
   * under way. Never throws, so that the error which led here is the one that is seen.
   */
  discard(): void {
    if (this.#isOpen) tryTo(() => closeSync(this.fd));
    if (!this.#isRenamed) tryTo(() => rmSync(this.#temporary, { force: true }));
    this.#isOpen = false;
  }

  #renameSync(): void {
    try {
      renameSync(this.#temporary, this.realPath);
    } catch (error) {
      throw this.#failed(error);
    }
    this.#isRenamed = true;
  }

  /** What the caller's check throws is the caller's, whatever it looks like. */
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
    return commitError(error, process.platform, this.path);
  }
}
