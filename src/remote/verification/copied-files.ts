/** The files of a local copy by the names that they have on the Hub. */

import { join } from 'node:path';
import { foldName } from '../../file/shards/file-choice.js';
import { isOfFile } from '../../file/shards/file-problems.js';
import { pathError } from '../../file/shards/shard-paths.js';
import { linkAt, listFolder, statAnything, type statLink } from '../../platform/io/file-calls.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { isBookkeeping } from '../../platform/io/temporary-names.js';
import { runAsync, type Work } from '../../work/work.js';

/** Folders in a copy in which git, `hf` and the Hub cache have their own files. */
const TOOL_FOLDERS: readonly string[] = ['.git', '.locks', '.cache/huggingface'];

/** A file that is there. */
export interface CopiedFile {
  /** Its path below the copy, with `/`. */
  readonly name: string;
  readonly path: string;
  readonly byteLength: number;
}

/** The reason why a file is not there; null without anything at its place. */
export interface AbsentFile {
  readonly hint: string | null;
}

/** The files below a folder. */
export class CopiedFiles {
  readonly #root: string;
  readonly #signal: AbortSignal | undefined;
  /** All that is no folder, links among it, by NFC and by the folded name; paths with `/`. */
  readonly #names = new Set<string>();
  readonly #byNormalized = new Map<string, string>();
  readonly #byFolded = new Map<string, string>();
  readonly #found = new Set<string>();

  private constructor(root: string, signal: AbortSignal | undefined) {
    this.#root = root;
    this.#signal = signal;
  }

  /** Lists a folder, and all folders below it that are no links and can be read. */
  static async list(root: string, signal: AbortSignal | undefined): Promise<CopiedFiles> {
    const files = new CopiedFiles(root, signal);
    const folders = [''];
    for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
      for (const { name, isFolder } of await runAsync(entriesOf(root, folder), signal)) {
        const path = [folder, name].filter(Boolean).join('/');
        if (isFolder && !TOOL_FOLDERS.includes(path)) folders.push(path);
        if (!isFolder) files.#add(path);
      }
    }
    return files;
  }

  #add(name: string): void {
    this.#names.add(name);
    this.#byNormalized.set(name.normalize('NFC'), name);
    this.#byFolded.set(foldName(name), name);
  }

  /** Finds the file of a name on the Hub, which may have another Unicode normalization here. */
  async find(name: string): Promise<CopiedFile | AbsentFile> {
    return await runAsync(this.#find(name), this.#signal);
  }

  *#find(name: string): Work<CopiedFile | AbsentFile> {
    const exact = this.#names.has(name) ? name : undefined;
    const here = exact ?? this.#byNormalized.get(name.normalize('NFC'));
    if (here !== undefined) {
      this.#found.add(here);
      return yield* this.#at(here);
    }
    // Anyone may have written the list: other names than those that are here may lead elsewhere.
    const objection = pathError(name);
    if (objection !== null) return { hint: `its name has ${objection}` };
    // Below a link to a folder, which was not listed.
    if (this.#isBelowLink(name)) return yield* this.#at(name);
    if ((yield* statTarget(join(this.#root, name)))?.isDirectory() === true) {
      return { hint: 'a folder is at its place' };
    }
    const near = this.#byFolded.get(foldName(name));
    return { hint: near === undefined ? null : `${near} differs from it in case` };
  }

  *#at(name: string): Work<CopiedFile | AbsentFile> {
    const path = join(this.#root, name);
    const stats = yield* statTarget(path);
    if (stats?.isFile() === true) return { name, path, byteLength: stats.size };
    if (stats?.isDirectory() === true) return { hint: 'a folder is at its place' };
    if (stats !== undefined) return { hint: 'no regular file is at its place' };
    const target = yield* linkAt(path);
    return { hint: target === undefined ? null : `a dangling link to ${target} is at its place` };
  }

  #isBelowLink(name: string): boolean {
    for (let end = name.indexOf('/'); end !== -1; end = name.indexOf('/', end + 1)) {
      if (this.#names.has(name.slice(0, end))) return true;
    }
    return false;
  }

  /** The files that `find` did not return, in the order of their names; not those of tools. */
  async extra(): Promise<string[]> {
    const found: string[] = [];
    for (const name of [...this.#names].sort()) {
      if (this.#found.has(name) || isBookkeeping(name.slice(name.lastIndexOf('/') + 1))) continue;
      const stats = await runAsync(statTarget(join(this.#root, name)), this.#signal);
      if (stats?.isFile() === true) found.push(name);
    }
    return found;
  }
}

/** Lists a folder of a copy; none for one below the root that cannot be read, such as `lost+found`. */
function* entriesOf(root: string, folder: string): ReturnType<typeof listFolder> {
  try {
    return yield* listFolder(join(root, folder));
  } catch (error) {
    if (folder === '' || !isOfFile(error)) throw error;
    return [];
  }
}

/** What a path leads to; undefined for nothing, also after links in a circle, and for a name that is too long. */
function* statTarget(path: string): ReturnType<typeof statLink> {
  try {
    return yield* statAnything(path);
  } catch (error) {
    if (hasCode(error, ['ELOOP', 'ENAMETOOLONG'])) return undefined;
    throw error;
  }
}
