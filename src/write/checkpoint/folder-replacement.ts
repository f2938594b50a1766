/**
 * Replaces the checkpoint in a folder. At every moment a reader of the index (or of the single file, without an
 * index) finds the whole old checkpoint or the whole new one.
 *
 * Everything is written to temporary files first. Then one step switches: the new index is renamed into place, or an
 * old index next to a single file is deleted. If an old index names some of the new files, they get interim names
 * first; an index with the interim names is renamed into place in that one step, and the files get their own names
 * afterwards.
 *
 * A record lists the files that are deleted after the switch, and the new ones. After a kill the next replacement
 * deletes those of them that are not of the folder's checkpoint.
 *
 * Other files, such as a config, get their names before the switch if the names are free, and after it if they
 * replace a file: the old checkpoint keeps its files until then.
 */

import { rm, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { shardNamesOf } from '../../file/checkpoint/find-files.js';
import { SHARD_NUMBER } from '../../file/shards/file-choice.js';
import { FilenamePattern } from '../../file/shards/file-names.js';
import { SHARD_EXTENSION } from '../../file/shards/shard-paths.js';
import { retryWithoutDropped } from '../../platform/io/dropped-files.js';
import { listFolder } from '../../platform/io/file-calls.js';
import { writeViews } from '../../platform/io/file-writes.js';
import { type TemporaryName, TemporaryNames } from '../../platform/io/temporary-names.js';
import { runAsync } from '../../work/work.js';
import { syncFolders } from '../replacement/folder-sync.js';
import { linkOrCopy } from '../replacement/hard-link.js';
import { innerPath } from '../replacement/inner-paths.js';
import type { LikeFile } from '../replacement/permissions.js';
import { Replacement } from '../replacement/replacement.js';
import { type OldFolder, oldFileOf, requireReplaceable, staleAmong } from './old-files.js';
import { ReplacementRecord } from './replacement-record.js';

/** For files next to no model: no file has such a name. */
export const NO_MODEL: FilenamePattern = new FilenamePattern(
  `.safetensors-mmap-files{suffix}${SHARD_EXTENSION}`,
);

/** Stale files of an earlier checkpoint. */
export interface StaleFiles {
  /** Names of the deleted files. */
  readonly deleted: string[];
  /** Names of the files that could not be deleted. */
  readonly failedDeletions: string[];
}

/** Options of the new files. */
interface FolderReplacementOptions {
  /** Whether to sync files and folder. */
  readonly durable: boolean;
}

/** The folder's new index. */
interface NewIndexes {
  /** Null for a single file. */
  readonly index: Uint8Array | null;
  /** Builds an index with other file names; for a single file, too. */
  interimIndex(nameOf: (filename: string) => string): Uint8Array;
}

/** A file of tensors. */
interface NewFile {
  /** Its final name. */
  readonly name: string;
  /** Its name until the old file of its final name is no longer needed. */
  readonly interim: string;
  /** Its name while it is written. */
  readonly written: string;
  readonly file: Replacement;
}

/** A file without tensors. */
interface OtherNewFile extends Pick<NewFile, 'name' | 'file'> {
  /** Whether the folder has a file of its name. */
  readonly isReplacing: boolean;
}

/** One replacement under way in a locked folder; ends with `discard`. */
export class FolderReplacement {
  readonly #folder: string;
  readonly #pattern: FilenamePattern;
  readonly #durable: boolean;
  readonly #names: TemporaryNames;
  /** A file of the old checkpoint, whose owner and permissions the new files get. */
  #like: LikeFile | undefined;
  readonly #files: NewFile[] = [];
  /** Names of files to keep as they are. */
  readonly #kept = new Set<string>();
  readonly #otherFiles: OtherNewFile[] = [];
  readonly #indexes: Replacement[] = [];
  /** Names of new files that were free before. */
  readonly #placed = new Set<string>();
  #record: ReplacementRecord | undefined;
  /** Whether a killed replacement left a record. */
  #isRecorded = false;
  #isSwitched = false;

  private constructor(folder: string, pattern: FilenamePattern, options: FolderReplacementOptions) {
    this.#folder = folder;
    this.#pattern = pattern;
    this.#durable = options.durable;
    this.#names = new TemporaryNames(pattern.text);
  }

  /**
   * Deletes temporary files of this pattern that a killed process left in the folder. `names` are the names of the
   * new files.
   *
   * @throws SafetensorsError `SAFETENSORS_NOT_A_REGULAR_FILE`, `SAFETENSORS_HUB_CACHE_BLOB` for a path that must not
   *   be replaced; FormatError `SAFETENSORS_UNSAFE_SHARD_NAME` for names below a link; errors of the system
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
   * Opens a new file of tensors for writing; finish it before `commit`. With `keptName` it continues an existing
   * temporary file of that name, which stays when this replacement fails.
   */
  async create(name: string, byteLength: number, keptName?: string): Promise<Replacement> {
    const temporary = this.#names.next();
    const { interim, written } = temporary;
    const file = await this.#open(temporary, name, byteLength, this.#like, keptName);
    this.#files.push({ name, interim, written: keptName ?? written, file });
    return file;
  }

  /** Keeps an existing file of tensors, which belongs to the new checkpoint, too. */
  keep(name: string): void {
    this.#kept.add(name);
  }

  /**
   * Opens a new file without tensors. When it replaces a file, it gets that file's owner and permissions.
   */
  async createOther(name: string, byteLength: number, keptName?: string): Promise<Replacement> {
    const old = oldFileOf(this.#folder, name);
    const file = await this.#open(this.#names.next(), name, byteLength, old, keptName);
    this.#otherFiles.push({ name, file, isReplacing: old !== undefined });
    return file;
  }

  /**
   * Makes the new files the checkpoint of the folder, and deletes the files of the one that they replace, and obsolete
   * ones.
   *
   * @throws SafetensorsError `SAFETENSORS_TARGET_IN_USE` on Windows; errors of the system. The folder then has the
   *   old checkpoint or the new one, which may still have interim names
   */
  async commit(indexes: NewIndexes, obsolete: readonly string[] = []): Promise<StaleFiles> {
    // Now, because the new index does not name them.
    const old = await this.#findStale(indexes.index !== null);
    if (indexes.index !== null || old.length > 0) await this.#writeRecord(old);
    await this.#placeOtherFiles(false);
    const stale: StaleFiles = { deleted: await this.#switch(indexes), failedDeletions: [] };
    await this.#placeOtherFiles(true);
    for (const { interim } of this.#files) await this.#remove(interim);
    await this.#clear([...old, ...obsolete], stale);
    if (stale.failedDeletions.length === 0) await this.#removeRecord();
    return stale;
  }

  /** Deletes the new files, unless they are the folder's checkpoint by now. Never throws. */
  async discard(): Promise<void> {
    for (const { file } of [...this.#files, ...this.#otherFiles]) file.discard();
    for (const index of this.#indexes) index.discard();
    this.#names.release();
    if (this.#isSwitched) return;
    for (const name of this.#placed) await this.#remove(name);
    // Files of an earlier record may still be there.
    if (!this.#isRecorded) await this.#removeRecord();
  }

  /** Records the files to delete after the switch, and the new ones. */
  async #writeRecord(stale: readonly string[]): Promise<void> {
    const record = new ReplacementRecord();
    this.#record = record;
    for (const name of stale) {
      if (this.#pattern.owns(name)) record.add(name, join(this.#folder, name));
    }
    for (const { name, written } of this.#files) {
      // After a switch to interim names, the old file still has this name.
      for (const path of [name, written]) record.add(name, join(this.#folder, path));
    }
    await this.#saveRecord();
    await this.#sync();
  }

  async #saveRecord(): Promise<void> {
    const { written } = this.#names.next();
    const durable = this.#durable;
    await this.#record?.write(this.#recordPath, join(this.#folder, written), { durable });
  }

  async #removeRecord(): Promise<void> {
    if (this.#record !== undefined || this.#isRecorded) await this.#remove(this.#names.record);
  }

  get #recordPath(): string {
    return join(this.#folder, this.#names.record);
  }

  /** Renames other files into place: those that replace a file, or those with free names. */
  async #placeOtherFiles(isReplacing: boolean): Promise<void> {
    const files = this.#otherFiles.filter((file) => file.isReplacing === isReplacing);
    for (const { name, file } of files) {
      if (!isReplacing) this.#placed.add(name);
      await file.moveTo(this.#pathOf(name));
    }
    if (files.length > 0) await this.#sync();
  }

  /** Switches to the new files; returns the names of the deleted old indexes. */
  async #switch(newIndexes: NewIndexes): Promise<string[]> {
    const names = await this.#list();
    const present = new Set(names.filter((name) => this.#pattern.owns(name)));
    const indexes = [...present].filter((name) => this.#pattern.isIndex(name));
    const isNeeded = this.#isInterimNeeded(present, indexes);
    // Write both indexes before the first rename, because the disk may be full.
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

  /**
   * Whether an old index would name any of the new files, once these have their names, or old shards without an index
   * would be mixed with new ones.
   */
  #isInterimNeeded(present: ReadonlySet<string>, indexes: readonly string[]): boolean {
    const names = new Set(this.#files.map(({ name }) => name));
    const hasShards = [...present].some((name) => SHARD_NUMBER.test(name));
    if (indexes.length === 0 && names.size > 1 && hasShards) return true;
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

  /** Gives a file its final name; it keeps the interim name as a second one. */
  async #giveName({ name, interim }: NewFile): Promise<void> {
    const temporary = this.#names.next();
    const copy = this.#names.next();
    await linkOrCopy(join(this.#folder, interim), {
      path: this.#pathOf(name),
      temporaryPath: join(this.#folder, temporary.written),
      openCopy: (byteLength) => this.#open(copy, name, byteLength),
      copied: async () => {
        this.#record?.add(name, join(this.#folder, copy.written));
        await this.#saveRecord();
      },
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

  /** Makes errors show the file's final name. */
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

  /** Names of files that are not in the new checkpoint, in the order of their deletion. */
  async #findStale(isSharded: boolean): Promise<readonly string[]> {
    const kept = new Set([...this.#kept, ...this.#files.map(({ name }) => name)]);
    if (isSharded) kept.add(this.#pattern.indexFilename);
    const contents = this.#contents(await this.#list());
    return staleAmong(contents, kept).stale;
  }

  #contents(names: readonly string[]): OldFolder {
    const [folder, pattern, temporary] = [this.#folder, this.#pattern, this.#names];
    return { folder, names, pattern, temporary };
  }

  async #list(): Promise<string[]> {
    const list = () => listFolder(this.#folder);
    const entries = await runAsync(retryWithoutDropped(list), undefined);
    return entries.map(({ name }) => name);
  }

  /** Deletes those of the stale files that are there. */
  async #clear(stale: readonly string[], { deleted, failedDeletions }: StaleFiles): Promise<void> {
    const present = new Set(await this.#list());
    for (const name of stale.filter((name) => present.has(name))) {
      if (await this.#remove(name)) deleted.push(name);
      else failedDeletions.push(name);
    }
  }

  /** Refuses files that must not be replaced, and deletes abandoned temporary files. */
  async #lookAt(newNames: Iterable<string>): Promise<void> {
    const names = await this.#list();
    this.#like = requireReplaceable(this.#contents(names), newNames);
    this.#isRecorded = names.includes(this.#names.record);
    for (const name of names) {
      if (this.#names.isUnfinished(name)) await this.#remove(name);
    }
  }

  /** Deletes a file; returns whether it is gone. */
  async #remove(name: string): Promise<boolean> {
    try {
      await rm(this.#pathOf(name), { force: true });
      return true;
    } catch {
      return false;
    }
  }

  /** Returns the path of a file of the folder; throws if, right now, a link would lead out of the folder. */
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
