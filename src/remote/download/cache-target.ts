/**
 * Downloads files from the Hub into the local Hub cache, as its Python library lays it out: blobs by
 * their hashes, links to them in the snapshot of the commit, and the commit of a branch.
 */

import { existsSync, lstatSync, openSync } from 'node:fs';
import { copyFile, rename, rm, symlink } from 'node:fs/promises';
import { basename, dirname, join, relative, sep } from 'node:path';
import { RemoteError } from '../../errors/errors.js';
import { hubCacheFolder } from '../../file/cache/cache.js';
import {
  blobsFolder,
  ownByteLength,
  refPath,
  snapshotFolder,
} from '../../file/cache/cache-layout.js';
import { requireRevision } from '../../file/hub/ids.js';
import { closeQuietly, linkAt, statAnything } from '../../platform/io/file-calls.js';
import { readText, writeNewFile } from '../../platform/io/small-files.js';
import { aboutFile, hasCode } from '../../platform/io/system-errors.js';
import { makeTemporaryName } from '../../platform/io/temporary-names.js';
import { runAsync, runSync } from '../../work/work.js';
import { makeFolder } from '../../write/replacement/create-directories.js';
import { syncCreated, syncFolders } from '../../write/replacement/folder-sync.js';
import { innerPath, makeInnerFolders } from '../../write/replacement/inner-paths.js';
import { inTurn, waitForLock } from '../../write/replacement/locks.js';
import { Replacement } from '../../write/replacement/replacement.js';
import {
  allFiles,
  type DownloadItem,
  type DownloadItems,
  type DownloadScope,
} from './download-item.js';
import { missingByteLength, requireFreeSpace } from './free-space.js';
import { isAlreadyThere } from './partial-files.js';
import { type ReceivedBytes, receiveAll } from './receive-all.js';
import type { SourceFiles } from './source-files.js';
import type { TargetOptions } from './target-options.js';

/** Tells backup programs that the folder's contents can be downloaded again. */
const CACHE_TAG = `Signature: 8a477f597d28d172789f06886806bc55
# This file is a cache directory tag.
# For information about cache directory tags, see https://bford.info/cachedir/
`;

/** A group of users shares a cache, as with the Python library. */
const LOCK_MODE = 0o664;

/** Places for the files of a snapshot. */
export class CacheFolder {
  readonly #root: string;
  readonly #repository: string;
  readonly #locks: string;
  /** The source's folder in the snapshot. */
  readonly snapshot: string;
  readonly #ref: string | undefined;
  readonly #commit: string;
  /** Whether the bytes at a path have their hash, as far as they were compared. */
  readonly #compared = new Map<string, boolean>();

  /**
   * Of a source on the Hub.
   *
   * @throws RangeError `ERR_OUT_OF_RANGE` for a revision that is not a name: it is part of a path here
   */
  constructor({ address, commit, prefix }: NonNullable<SourceFiles['hub']>) {
    const { cacheName, revision = 'main' } = address.id;
    requireRevision(revision);
    this.#root = hubCacheFolder();
    this.#repository = join(this.#root, cacheName);
    this.#locks = join(this.#root, '.locks', cacheName);
    this.snapshot = join(snapshotFolder(this.#repository, commit), prefix);
    this.#ref = revision === commit ? undefined : refPath(this.#repository, revision);
    this.#commit = commit;
  }

  /** The path at which readers find a file. */
  pathOf({ name }: Pick<DownloadItem, 'name'>): string {
    return join(this.snapshot, name);
  }

  /**
   * Receives all files, then links them into the snapshot, and names its commit as that of the revision.
   *
   * @throws SafetensorsError `SAFETENSORS_LOCKED`; FormatError `SAFETENSORS_UNSAFE_SHARD_NAME` for folders
   *   that are links; RemoteError; errors of the system
   */
  async fill(
    plan: DownloadItems,
    options: TargetOptions,
    scope: DownloadScope,
  ): Promise<ReceivedBytes> {
    const files = allFiles(plan);
    const blobs = blobsFolder(this.#repository);
    for (const file of files) await this.#compare(file, scope.signal);
    // Touch nothing then: the cache may be read-only and filled by others.
    if (files.every((file) => this.#isLinked(file))) {
      scope.transfer.finish();
      await this.#writeRef(options);
      const reusedBytes = files.reduce((sum, { byteLength }) => sum + byteLength, 0);
      return { downloadedBytes: 0, reusedBytes };
    }
    const made = makeFolder(this.#repository);
    makeFolder(this.#locks);
    // Check this before fetching anything.
    const places = files.map((file) => this.pathOf(file));
    for (const path of [...places, this.#ref ?? blobs]) {
      innerPath(this.#repository, this.#nameOf(path));
    }
    this.#makeFolders(join(blobs, 'any'));
    await writeNew(join(this.#root, 'CACHEDIR.TAG'), CACHE_TAG);
    const missing = files.filter((file) => !this.#isThere(file));
    const needed = missing.reduce(
      (sum, file) => sum + missingByteLength(file.byteLength, this.#partialOf(file)),
      0,
    );
    await requireFreeSpace(blobs, needed, this.#repository);
    const received = await receiveAll(files, scope, (file) => this.#receive(file, options, scope));
    for (const file of files) await this.#link(file);
    if (options.durable) {
      await syncCreated(this.#repository, made);
      // Sync first: the ref must name files that are on the disk.
      await this.#sync([...places, join(blobs, 'any')]);
    }
    await this.#writeRef(options);
    return received;
  }

  #blobOf({ hash, name }: DownloadItem): string {
    if (hash !== null) return join(blobsFolder(this.#repository), hash);
    const message = `expected the hash of ${name} from the Hub, which names the file in the cache, found none`;
    throw new RemoteError('SAFETENSORS_BAD_RESPONSE', message, { path: this.#repository });
  }

  #partialOf(file: DownloadItem): string {
    return `${this.#blobOf(file)}.incomplete`;
  }

  /** Whether the cache has a file, whose bytes are not known to be wrong. */
  #isThere(file: DownloadItem): boolean {
    return this.#hasBlob(file) || this.#isInSnapshot(file);
  }

  #hasBlob(file: DownloadItem): boolean {
    const blob = this.#blobOf(file);
    if (this.#compared.get(blob) === false) return false;
    return runSync(ownByteLength(blob, this.#repository)) === file.byteLength;
  }

  /**
   * Compares a file that is there with its hash, which names it: a disk may have damaged it, and other programs create
   * blobs before they are complete. Reads the whole file.
   */
  async #compare(file: DownloadItem, signal: AbortSignal): Promise<void> {
    const [blob, copy] = [this.#blobOf(file), this.pathOf(file)];
    for (const path of [blob, copy]) this.#compared.delete(path);
    const places = [this.#hasBlob(file) ? blob : [], this.#isInSnapshot(file) ? copy : []].flat();
    for (const path of places) this.#compared.set(path, await isAlreadyThere(path, file, signal));
  }

  /** Whether there is a file, or a link to its blob, where readers find it; not a link to another place. */
  hasPlace(file: DownloadItem): boolean {
    const path = this.pathOf(file);
    return existsSync(path) && (runSync(linkAt(path)) ?? this.#linkTo(file)) === this.#linkTo(file);
  }

  /** Whether a file is in its place, without leftovers. */
  #isLinked(file: DownloadItem): boolean {
    const isLink = runSync(linkAt(this.pathOf(file))) === this.#linkTo(file);
    return (
      (isLink ? this.#isThere(file) : this.#isInSnapshot(file)) &&
      !existsSync(this.#partialOf(file))
    );
  }

  /** The text of a file's link in the snapshot. */
  #linkTo(file: DownloadItem): string {
    return relative(dirname(this.pathOf(file)), this.#blobOf(file));
  }

  /** Whether the snapshot has the file itself, as on systems without links. */
  #isInSnapshot(file: DownloadItem): boolean {
    const path = this.pathOf(file);
    if (this.#compared.get(path) === false) return false;
    const stats = lstatSync(path, { throwIfNoEntry: false });
    return stats?.isFile() === true && stats.size === file.byteLength;
  }

  async #receive(
    file: DownloadItem,
    { durable, lockTimeout }: TargetOptions,
    scope: DownloadScope,
  ): Promise<ReceivedBytes> {
    const { transfer, signal } = scope;
    const blob = this.#blobOf(file);
    return await inTurn(blob, signal, async () => {
      const lock = openSync(join(this.#locks, `${file.hash}.lock`), 'a', LOCK_MODE);
      try {
        await waitForLock(lock, blob, { lockTimeout, signal });
        // Another process may have received it meanwhile.
        const isRight = [blob, this.pathOf(file)].some((path) => this.#compared.get(path) === true);
        if (!isRight) await this.#compare(file, signal);
        if (this.#isThere(file)) {
          // Other programs, such as the Python library, don't continue our partial files.
          await rm(this.#partialOf(file), { force: true });
          transfer.advance(file.byteLength);
          return { downloadedBytes: 0, reusedBytes: file.byteLength };
        }
        const replacement = await Replacement.open(blob, blob, {
          byteLength: 0,
          durable,
          temporaryName: basename(this.#partialOf(file)),
          isKept: true,
          isBlob: true,
        });
        try {
          const { hash, ...received } = await file.receive(replacement, blob, scope);
          await replacement.commit(signal);
          this.#compared.set(blob, true);
          return received;
        } finally {
          replacement.discard();
        }
      } finally {
        closeQuietly(lock);
      }
    });
  }

  /** Puts a link to the blob into the snapshot, or a copy on systems without links. */
  async #link(file: DownloadItem): Promise<void> {
    const blob = this.#blobOf(file);
    const path = this.pathOf(file);
    const link = this.#linkTo(file);
    if (this.#isInSnapshot(file) || runSync(linkAt(path)) === link) return;
    this.#makeFolders(path);
    // Replace a link to elsewhere, or a file that is not the commit's.
    await rm(path, { force: true });
    try {
      await symlink(link, path);
    } catch (error) {
      // Another process was faster.
      if (hasCode(error, ['EEXIST'])) return;
      // Node's error would name the link's text.
      if (!hasCode(error, ['EPERM', 'ENOTSUP', 'ENOSYS', 'EINVAL'])) throw aboutFile(error, path);
      await this.#place(path, (temporary) => copyFile(blob, temporary));
    }
  }

  /** Writes the ref: the commit of the revision, unless it is already there. */
  async #writeRef({ durable }: TargetOptions): Promise<void> {
    const path = this.#ref;
    if (path === undefined || (await hasText(path, this.#commit))) return;
    this.#makeFolders(path);
    await this.#place(path, (temporary) => writeNewFile(temporary, this.#commit, { durable }));
    if (durable) await this.#sync([path]);
  }

  /** Syncs the folders of files in the repository. */
  async #sync(paths: readonly string[]): Promise<void> {
    await syncFolders(
      this.#repository,
      paths.map((path) => this.#nameOf(path)),
    );
  }

  /** Makes the folders of a file. Refuses a link among them: readers would not open files of it. */
  #makeFolders(path: string): void {
    makeInnerFolders(this.#repository, this.#nameOf(path));
  }

  /** The path of a file in the repository, with `/`. */
  #nameOf(path: string): string {
    return relative(this.#repository, path).split(sep).join('/');
  }

  /** Writes a file in one step. Until then no program finds it among the files of a snapshot or the refs. */
  async #place(path: string, write: (temporary: string) => Promise<void>): Promise<void> {
    const temporary = join(this.#repository, makeTemporaryName());
    try {
      await write(temporary);
      await rename(temporary, path);
    } finally {
      await rm(temporary, { force: true });
    }
  }
}

/** Whether a file has that text. */
async function hasText(path: string, text: string): Promise<boolean> {
  return (
    runSync(statAnything(path))?.size === text.length &&
    (await runAsync(readText(path), undefined)) === text
  );
}

/** Writes a file unless there is one. */
async function writeNew(path: string, text: string): Promise<void> {
  try {
    await writeNewFile(path, text, { durable: false });
  } catch (error) {
    if (!hasCode(error, ['EEXIST'])) throw error;
  }
}
