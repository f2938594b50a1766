/**
 * The files of a new checkpoint, which take the place of an earlier one. At every moment the folder
 * has the old one or the new one, whole, for whoever goes by the index, and by the single file where
 * there is no index.
 *
 * All is written to temporary files first. Then one step makes it the checkpoint: the index is put
 * into its place, or taken away from beside a single file. Where an old index would name some of the
 * new files before, these have interim names at first, and so has an index: it is put into its place
 * in that one step, and the files get their names afterwards.
 */

import { type Stats, statSync } from 'node:fs';
import { mkdir, readdir, rm, rmdir, unlink } from 'node:fs/promises';
import { dirname, join, resolve, sep } from 'node:path';
import { writeViews } from '../../io/file-copy.js';
import { Slots } from '../../io/transfer.js';
import { syncFolder } from '../../replacement/folder-sync.js';
import { Replacement } from '../../replacement/replacement.js';
import { giveSecondName } from '../../replacement/second-name.js';
import { resolveTarget } from '../../replacement/target.js';
import { type TemporaryName, TemporaryNames } from '../../replacement/temporary-names.js';
import type { FilenamePattern } from '../../shards/file-names.js';
import { shardNamesOf } from '../find-files.js';

/** Which files an earlier checkpoint has left. */
export interface StaleFiles {
  /** Names of those that were deleted. */
  readonly deleted: string[];
  /** Names of those that could not be deleted. */
  readonly undeleted: string[];
}

/** How the new files are written. */
export interface FolderReplacementOptions {
  /** Whether files and folder are synced. */
  readonly durable: boolean;
}

/** What the folder's index becomes. */
export interface NewIndexes {
  /** Null for a single file, which has no index. */
  readonly index: Uint8Array | null;
  /** An index, also for a single file, in which files have other names. */
  interimIndex(nameOf: (filename: string) => string): Uint8Array;
}

/** A file of tensors. */
interface NewFile {
  /** As it is called in the end. */
  readonly name: string;
  /** As it is called until the old file of its name is not needed any more. */
  readonly interim: string;
  readonly file: Replacement;
}

/** Two of this thread that change the same folder must not mix their files. */
const switches = new Slots(1);

async function sync(folder: string): Promise<void> {
  await syncFolder(Buffer.from(folder + sep), folder);
}

/** One replacement under way; ends with `discard`. */
export class FolderReplacement {
  readonly #folder: string;
  readonly #pattern: FilenamePattern;
  readonly #durable: boolean;
  readonly #names: TemporaryNames;
  /** The topmost folder that was made for the checkpoint. */
  readonly #madeFolder: string | undefined;
  /** A file of the old checkpoint, whose owner and permissions the new ones get. */
  #like: Stats | undefined;
  readonly #files: NewFile[] = [];
  readonly #indexes: Replacement[] = [];
  /** Names that were given to new files, and belonged to none before. */
  readonly #placed = new Set<string>();
  #isSwitched = false;

  private constructor(
    folder: string,
    pattern: FilenamePattern,
    madeFolder: string | undefined,
    options: FolderReplacementOptions,
  ) {
    this.#folder = folder;
    this.#pattern = pattern;
    this.#madeFolder = madeFolder;
    this.#durable = options.durable;
    this.#names = new TemporaryNames(pattern.text);
  }

  /**
   * Makes the folder when it is missing, and clears away what a process that was killed has left
   * there of this pattern. `names` are those that the new files will get.
   *
   * @throws SafetensorsError `SAFETENSORS_NOT_A_REGULAR_FILE`, `SAFETENSORS_HUB_CACHE_BLOB` for what
   *   must not be replaced; errors of the system (`ENAMETOOLONG`, `EACCES` …)
   */
  static async open(
    folder: string,
    pattern: FilenamePattern,
    names: Iterable<string>,
    options: FolderReplacementOptions,
  ): Promise<FolderReplacement> {
    const made = await mkdir(folder, { recursive: true });
    const replacement = new FolderReplacement(folder, pattern, made, options);
    try {
      if (made !== undefined && options.durable) await sync(dirname(made));
      await replacement.#lookAt(names);
    } catch (error) {
      await replacement.discard();
      throw error;
    }
    return replacement;
  }

  /** A new file of tensors, for writing; to be finished before `commit`. */
  async create(name: string, byteLength: number): Promise<Replacement> {
    const temporary = this.#names.next();
    const { interim } = temporary;
    const file = await this.#open(temporary, name, byteLength);
    this.#files.push({ name, interim, file });
    return file;
  }

  /**
   * Makes the files that were created the checkpoint, and deletes what belonged to an earlier one:
   * files that the pattern owns.
   *
   * @throws SafetensorsError `SAFETENSORS_TARGET_IN_USE` on Windows; errors of the system. The folder
   *   has the old checkpoint or the new one then; the new one maybe under interim names
   */
  async commit(indexes: NewIndexes): Promise<StaleFiles> {
    const stale: StaleFiles = { deleted: [], undeleted: [] };
    await switches.run(async () => {
      stale.deleted.push(...(await this.#switch(indexes)));
      for (const { interim } of this.#files) await this.#remove(interim);
      await this.#clear(indexes.index !== null, stale);
    });
    return stale;
  }

  /** Removes what was written, unless it is the checkpoint now. Never throws. */
  async discard(): Promise<void> {
    for (const { file } of this.#files) file.discard();
    for (const index of this.#indexes) index.discard();
    this.#names.release();
    if (this.#isSwitched) return;
    for (const name of this.#placed) await this.#remove(name);
    if (this.#madeFolder === undefined) return;
    const top = resolve(this.#madeFolder);
    for (let folder = resolve(this.#folder); folder.startsWith(top); folder = dirname(folder)) {
      await rmdir(folder).catch(() => undefined);
    }
  }

  /** Gives the names of old indexes that are gone. */
  async #switch(newIndexes: NewIndexes): Promise<string[]> {
    const names = await readdir(this.#folder);
    const present = new Set(names.filter((name) => this.#pattern.owns(name)));
    const indexes = [...present].filter((name) => this.#pattern.isIndex(name));
    const isNeeded = this.#isInterimNeeded(present, indexes);
    // Both are on the disk before the first name changes: it may be full.
    const index = newIndexes.index === null ? undefined : await this.#writeIndex(newIndexes.index);
    if (isNeeded) {
      await this.#switchToInterim(newIndexes);
      for (const file of this.#files) await this.#giveName(file);
    } else {
      for (const { file, name } of this.#files) {
        if (!present.has(name)) this.#placed.add(name);
        await file.moveTo(join(this.#folder, name));
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

  /** Whether giving the new files their names would make an old index name them, all or some. */
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

  /** Gives a file its name too, while it keeps the interim one. */
  async #giveName({ name, interim }: NewFile): Promise<void> {
    const temporary = this.#names.next();
    await giveSecondName(join(this.#folder, interim), {
      path: join(this.#folder, name),
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

  /** Messages name what the file is called in the end. */
  #open(temporary: TemporaryName, name: string, byteLength: number): Promise<Replacement> {
    const { interim, written } = temporary;
    return Replacement.open(join(this.#folder, interim), join(this.#folder, name), {
      byteLength,
      durable: this.#durable,
      temporaryName: written,
      like: this.#like,
    });
  }

  /** Deletes indexes first: one whose shards are gone would be a checkpoint cut short. */
  async #clear(isSharded: boolean, { deleted, undeleted }: StaleFiles): Promise<void> {
    const kept = new Set(this.#files.map(({ name }) => name));
    if (isSharded) kept.add(this.#pattern.indexFilename);
    const names = (await readdir(this.#folder)).filter((name) => !kept.has(name)).sort();
    const stale = names.filter((name) => this.#pattern.owns(name) || this.#names.isLeftOver(name));
    const indexes = stale.filter((name) => this.#pattern.isIndex(name));
    for (const name of new Set([...indexes, ...stale])) {
      if (await this.#remove(name)) deleted.push(name);
      else undeleted.push(name);
    }
  }

  /** Refuses what must not be replaced, and removes what nobody goes on with. */
  async #lookAt(newNames: Iterable<string>): Promise<void> {
    const names = await readdir(this.#folder);
    const owned = names.filter((name) => this.#pattern.owns(name));
    for (const name of new Set([...newNames, ...owned])) {
      const path = join(this.#folder, name);
      // A link that leads nowhere is replaced as any other.
      if (statSync(path, { throwIfNoEntry: false }) === undefined) continue;
      const { stats } = resolveTarget(path, path);
      this.#like ??= stats;
    }
    for (const name of names) {
      if (this.#names.isUnfinished(name)) await this.#remove(name);
    }
  }

  /** Whether the file is gone. */
  async #remove(name: string): Promise<boolean> {
    try {
      await rm(join(this.#folder, name), { force: true });
      return true;
    } catch {
      return false;
    }
  }

  get #indexPath(): string {
    return join(this.#folder, this.#pattern.indexFilename);
  }

  async #sync(): Promise<void> {
    if (this.#durable) await sync(this.#folder);
  }
}
