/**
 * Replaces the checkpoint in a folder. A reader that goes by the index, or by the single file where
 * there is no index, finds the whole old checkpoint or the whole new one at every moment.
 *
 * Everything is written to temporary files first. Then one step switches: the new index is renamed
 * into place, or an old index beside a single file is deleted. If an old index would name some of the
 * new files before that, the new files get interim names first. Then an index with these interim names
 * is renamed into place in that one step, and the files get their own names afterwards.
 *
 * Other files, such as a config, get their names before the switch where the folder has no file of that
 * name, and after it where they replace one: the old checkpoint keeps its own until then.
 */

import { readdir, rm, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { shardNamesOf } from '../../file/checkpoint/find-files.js';
import type { FilenamePattern } from '../../file/shards/file-names.js';
import { writeViews } from '../../platform/io/file-writes.js';
import { type TemporaryName, TemporaryNames } from '../../platform/io/temporary-names.js';
import { syncFolders } from '../replacement/folder-sync.js';
import { innerPath } from '../replacement/inner-paths.js';
import type { LikeFile } from '../replacement/permissions.js';
import { Replacement } from '../replacement/replacement.js';
import { giveSecondName } from '../replacement/second-name.js';
import { oldFileOf, requireReplaceable, staleAmong } from './old-files.js';

/** Files that an earlier checkpoint has left. */
export interface StaleFiles {
  /** Names of those that were deleted. */
  readonly deleted: string[];
  /** Names of those that could not be deleted. */
  readonly undeleted: string[];
}

/** How the new files are written. */
export interface FolderReplacementOptions {
  /** Whether to sync files and folder. */
  readonly durable: boolean;
}

/** What the folder's index becomes. */
export interface NewIndexes {
  /** Null for a single file, which has no index. */
  readonly index: Uint8Array | null;
  /** An index in which files have other names; for a single file, too. */
  interimIndex(nameOf: (filename: string) => string): Uint8Array;
}

/** A file of tensors. */
interface NewFile {
  /** Its name in the end. */
  readonly name: string;
  /** Its name until the old file of its name is not needed any more. */
  readonly interim: string;
  readonly file: Replacement;
}

/** A file that holds no tensors. */
interface OtherNewFile extends Pick<NewFile, 'name' | 'file'> {
  /** Whether there is a file of its name. */
  readonly isReplacing: boolean;
}

/** One replacement under way in a folder that is locked; ends with `discard`. */
export class FolderReplacement {
  readonly #folder: string;
  readonly #pattern: FilenamePattern;
  readonly #durable: boolean;
  readonly #names: TemporaryNames;
  /** A file of the old checkpoint: the new files get its owner and permissions. */
  #like: LikeFile | undefined;
  readonly #files: NewFile[] = [];
  /** Names of files that stay what they are. */
  readonly #kept = new Set<string>();
  readonly #otherFiles: OtherNewFile[] = [];
  readonly #indexes: Replacement[] = [];
  /** Names of new files that no file had before. */
  readonly #placed = new Set<string>();
  #isSwitched = false;

  private constructor(folder: string, pattern: FilenamePattern, options: FolderReplacementOptions) {
    this.#folder = folder;
    this.#pattern = pattern;
    this.#durable = options.durable;
    this.#names = new TemporaryNames(pattern.text);
  }

  /**
   * Deletes temporary files of this pattern that a killed process has left in the folder. `names` are
   * the names that the new files will get.
   *
   * @throws SafetensorsError `SAFETENSORS_NOT_A_REGULAR_FILE`, `SAFETENSORS_HUB_CACHE_BLOB` for what
   *   must not be replaced; FormatError `SAFETENSORS_UNSAFE_SHARD_NAME` for names below a link; errors of the system
   *   (`ENAMETOOLONG`, `EACCES` …)
   */
  static async open(
    folder: string,
    pattern: FilenamePattern,
    names: Iterable<string>,
    options: FolderReplacementOptions,
  ): Promise<FolderReplacement> {
    const replacement = new FolderReplacement(folder, pattern, options);
    await replacement.#lookAt(names);
    return replacement;
  }

  /**
   * Opens a new file of tensors for writing; finish it before `commit`. With `keptName` it goes on with the
   * temporary file of that name, if there is one, and that stays when this replacement fails.
   */
  async create(name: string, byteLength: number, keptName?: string): Promise<Replacement> {
    const temporary = this.#names.next();
    const { interim } = temporary;
    const file = await this.#open(temporary, name, byteLength, this.#like, keptName);
    this.#files.push({ name, interim, file });
    return file;
  }

  /** Keeps a file of tensors that is there already: it belongs to the new checkpoint, too. */
  keep(name: string): void {
    this.#kept.add(name);
  }

  /**
   * The same for a file that holds no tensors. When it replaces a file, it gets that one's owner and
   * permissions.
   */
  async createOther(name: string, byteLength: number, keptName?: string): Promise<Replacement> {
    const old = oldFileOf(this.#folder, name);
    const file = await this.#open(this.#names.next(), name, byteLength, old, keptName);
    this.#otherFiles.push({ name, file, isReplacing: old !== undefined });
    return file;
  }

  /**
   * Makes the new files the checkpoint of the folder, and deletes files of an earlier one: those that
   * the pattern owns.
   *
   * @throws SafetensorsError `SAFETENSORS_TARGET_IN_USE` on Windows; errors of the system. The folder
   *   then has the old checkpoint or the new one, the latter perhaps under interim names
   */
  async commit(indexes: NewIndexes): Promise<StaleFiles> {
    await this.#placeOtherFiles(false);
    const stale: StaleFiles = { deleted: await this.#switch(indexes), undeleted: [] };
    await this.#placeOtherFiles(true);
    for (const { interim } of this.#files) await this.#remove(interim);
    await this.#clear(indexes.index !== null, stale);
    return stale;
  }

  /** Deletes what was written, unless it is the folder's checkpoint by now. Never throws. */
  async discard(): Promise<void> {
    for (const { file } of [...this.#files, ...this.#otherFiles]) file.discard();
    for (const index of this.#indexes) index.discard();
    this.#names.release();
    if (this.#isSwitched) return;
    for (const name of this.#placed) await this.#remove(name);
  }

  /** Gives their names to the other files that replace one, or to those that don't. */
  async #placeOtherFiles(isReplacing: boolean): Promise<void> {
    const files = this.#otherFiles.filter((file) => file.isReplacing === isReplacing);
    for (const { name, file } of files) {
      if (!isReplacing) this.#placed.add(name);
      await file.moveTo(this.#pathOf(name));
    }
    if (files.length > 0) await this.#sync();
  }

  /** Switches to the new files; returns the names of old indexes that were deleted. */
  async #switch(newIndexes: NewIndexes): Promise<string[]> {
    const names = await readdir(this.#folder);
    const present = new Set(names.filter((name) => this.#pattern.owns(name)));
    const indexes = [...present].filter((name) => this.#pattern.isIndex(name));
    const isNeeded = this.#isInterimNeeded(present, indexes);
    // Both indexes are written before the first name changes, because the disk may be full.
    const index = newIndexes.index === null ? undefined : await this.#writeIndex(newIndexes.index);
    if (isNeeded) {
      await this.#switchToInterim(newIndexes);
      for (const file of this.#files) await this.#giveName(file);
    } else {
      for (const { file, name } of this.#files) {
        if (!present.has(name)) this.#placed.add(name);
        await file.moveTo(this.#pathOf(name));
      }
    }
    await this.#sync();
    if (index === undefined) {
      const all = isNeeded ? [...indexes, this.#pattern.indexFilename] : indexes;
      for (const name of new Set(all)) await unlink(join(this.#folder, name));
    } else {
      await index.moveTo(this.#indexPath);
    }
    this.#isSwitched = true;
    await this.#sync();
    return index === undefined ? indexes : [];
  }

  /** Whether an old index would name new files, all or some, once these have their names. */
  #isInterimNeeded(present: ReadonlySet<string>, indexes: readonly string[]): boolean {
    const names = new Set(this.#files.map(({ name }) => name));
    if (indexes.length > 0 && [...names].some((name) => present.has(name))) return true;
    for (const index of indexes) {
      const shards = shardNamesOf(join(this.#folder, index));
      if (shards === undefined || shards.some((shard) => names.has(shard))) return true;
    }
    return false;
  }

  async #switchToInterim({ interimIndex }: NewIndexes): Promise<void> {
    const interimNames = new Map(this.#files.map(({ name, interim }) => [name, interim]));
    const index = await this.#writeIndex(interimIndex((name) => interimNames.get(name) ?? name));
    for (const { file, interim } of this.#files) {
      this.#placed.add(interim);
      await file.moveTo(join(this.#folder, interim));
    }
    await this.#sync();
    await index.moveTo(this.#indexPath);
    this.#isSwitched = true;
    await this.#sync();
  }

  /** Gives a file its own name; it keeps the interim one as a second name. */
  async #giveName({ name, interim }: NewFile): Promise<void> {
    const temporary = this.#names.next();
    await giveSecondName(join(this.#folder, interim), {
      path: this.#pathOf(name),
      temporaryPath: join(this.#folder, temporary.written),
      openCopy: (byteLength) => this.#open(this.#names.next(), name, byteLength),
    });
  }

  async #writeIndex(bytes: Uint8Array): Promise<Replacement> {
    const { indexFilename } = this.#pattern;
    const index = await this.#open(this.#names.next(), indexFilename, bytes.byteLength);
    this.#indexes.push(index);
    await writeViews(index, [bytes], 0);
    await index.finish();
    return index;
  }

  /** Errors show the name that the file has in the end. */
  #open(
    temporary: TemporaryName,
    name: string,
    byteLength: number,
    like: LikeFile | undefined = this.#like,
    keptName?: string,
  ): Promise<Replacement> {
    const { interim, written } = temporary;
    const isKept = keptName !== undefined;
    return Replacement.open(join(this.#folder, interim), join(this.#folder, name), {
      byteLength: isKept ? 0 : byteLength,
      durable: this.#durable,
      temporaryName: keptName ?? written,
      like,
      isKept,
    });
  }

  /** Deletes stale files. */
  async #clear(isSharded: boolean, { deleted, undeleted }: StaleFiles): Promise<void> {
    const kept = new Set([...this.#kept, ...this.#files.map(({ name }) => name)]);
    if (isSharded) kept.add(this.#pattern.indexFilename);
    const names = await readdir(this.#folder);
    for (const name of staleAmong(names, this.#pattern, this.#names, kept)) {
      if (await this.#remove(name)) deleted.push(name);
      else undeleted.push(name);
    }
  }

  /** Refuses what must not be replaced, and deletes unfinished files that nobody is writing. */
  async #lookAt(newNames: Iterable<string>): Promise<void> {
    const names = await readdir(this.#folder);
    this.#like = requireReplaceable(this.#folder, names, this.#pattern, newNames);
    for (const name of names) {
      if (this.#names.isUnfinished(name)) await this.#remove(name);
    }
  }

  /** Deletes a file; whether it is gone. */
  async #remove(name: string): Promise<boolean> {
    try {
      await rm(this.#pathOf(name), { force: true });
      return true;
    } catch {
      return false;
    }
  }

  /** A file of the folder; throws when a link would lead out of it, at the last moment. */
  #pathOf(name: string): string {
    return innerPath(this.#folder, name);
  }

  get #indexPath(): string {
    return join(this.#folder, this.#pattern.indexFilename);
  }

  async #sync(): Promise<void> {
    if (!this.#durable) return;
    const files = [...this.#files, ...this.#otherFiles];
    await syncFolders(
      this.#folder,
      files.map(({ name }) => name),
    );
  }
}
