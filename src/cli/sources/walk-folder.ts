/** Lists the files in a folder and in the folders below it, within limits, and names what it skips. */

import type { Dirent } from 'node:fs';
import { readdir, realpath, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { insideOf } from '../../file/checkpoint/find-files.js';
import { runAsync, type Work } from '../../work/work.js';

/** Deeper folders are skipped. A model of a pipeline in the Hub cache is five folders below the cache. */
const MAX_DEPTH = 10;

/** Later entries are skipped. */
const MAX_ENTRIES = 20_000;

const NOT_REGULAR = 'not a regular file';

/** A file below the folder. */
export interface WalkedFile {
  /** Its name in its own folder. */
  readonly name: string;
  readonly path: string;
  /** Its path with all links followed. */
  readonly realPath: string;
}

/** The folder, or one below it. */
export interface WalkedFolder {
  /** Its path below the first folder, with slashes; empty for that one. */
  readonly name: string;
  readonly path: string;
  readonly files: readonly WalkedFile[];
}

/** A file or folder that was not read, for `--json`. */
export interface SkippedPath {
  readonly path: string;
  readonly reason: string;
}

/** The folders, each before those in it, in the order of their names. */
interface WalkedFolders {
  readonly folders: readonly WalkedFolder[];
  readonly skipped: readonly SkippedPath[];
}

/** Whether a path is inside the folder when links are followed. */
type InsideTest = (path: string) => Work<boolean>;

/** What is at a path; undefined for a link to a folder that is listed at its own place. */
type Found = 'file' | 'folder' | { readonly reason: string } | undefined;

/**
 * Lists a folder and those below it. Follows links to files in it, and in a snapshot of the Hub cache links to the
 * blobs of its repository. Folders that links lead to are listed only at their own place.
 *
 * @throws Error Node's own for a folder that cannot be listed; folders below it are skipped instead; `signal.reason`
 */
export async function walkFolder(
  path: string,
  signal: AbortSignal,
  maxDepth: number = MAX_DEPTH,
): Promise<WalkedFolders> {
  const isInside = await runAsync(insideOf(path), signal);
  const walk = new Walk(await realpath(path), isInside, maxDepth, signal);
  await walk.list(path, '', 0);
  return walk;
}

class Walk implements WalkedFolders {
  readonly folders: WalkedFolder[] = [];
  readonly skipped: SkippedPath[] = [];
  readonly #root: string;
  readonly #isInside: InsideTest;
  readonly #maxDepth: number;
  readonly #signal: AbortSignal;
  #entryCount = 0;

  constructor(root: string, isInside: InsideTest, maxDepth: number, signal: AbortSignal) {
    this.#root = root;
    this.#isInside = isInside;
    this.#maxDepth = maxDepth;
    this.#signal = signal;
  }

  async list(folder: string, name: string, depth: number): Promise<void> {
    const entries = await readdir(folder, { withFileTypes: true });
    const files: WalkedFile[] = [];
    const below: string[] = [];
    for (const entry of entries.sort((a, b) => (a.name < b.name ? -1 : 1))) {
      this.#signal.throwIfAborted();
      const path = join(folder, entry.name);
      if (++this.#entryCount > MAX_ENTRIES) {
        this.#skip(path, `not among the first ${MAX_ENTRIES} files and folders`);
        break;
      }
      const found = await this.#kindOf(entry, path);
      if (found === 'folder') below.push(entry.name);
      else if (found === 'file') {
        files.push({ name: entry.name, path, realPath: await realpath(path) });
      } else if (found !== undefined) this.#skip(path, found.reason);
    }
    this.folders.push({ name, path: folder, files });
    for (const one of below) {
      if (this.#entryCount > MAX_ENTRIES) return;
      const path = join(folder, one);
      if (depth === this.#maxDepth) this.#skip(path, `more than ${depth} folders deep`);
      else await this.#listBelow(path, name === '' ? one : `${name}/${one}`, depth + 1);
    }
  }

  async #listBelow(folder: string, name: string, depth: number): Promise<void> {
    try {
      await this.list(folder, name, depth);
    } catch (error) {
      this.#signal.throwIfAborted();
      this.#skip(folder, (error as Error).message);
    }
  }

  async #kindOf(entry: Dirent, path: string): Promise<Found> {
    if (entry.isDirectory()) return 'folder';
    if (entry.isFile()) return 'file';
    return entry.isSymbolicLink() ? await this.#targetOf(path) : { reason: NOT_REGULAR };
  }

  async #targetOf(link: string): Promise<Found> {
    try {
      if ((await realpath(link)) === this.#root) return undefined;
      const isInside = await runAsync(this.#isInside(link), this.#signal);
      if (!isInside) return { reason: 'a link that leads out of the folder' };
      const target = await stat(link);
      if (target.isDirectory()) return undefined;
      return target.isFile() ? 'file' : { reason: NOT_REGULAR };
    } catch (error) {
      this.#signal.throwIfAborted();
      return { reason: (error as Error).message };
    }
  }

  #skip(path: string, reason: string): void {
    this.skipped.push({ path, reason });
  }
}
