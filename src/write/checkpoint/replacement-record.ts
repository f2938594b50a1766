/**
 * The record of one replacement of a checkpoint: the files that it deletes after its switch, and the files that it
 * puts into place. After a kill the next replacement reads it, and deletes those that belong to no checkpoint by then.
 * A file that was changed since is another file: it stays.
 */

import { type BigIntStats, lstatSync } from 'node:fs';
import { rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { readSmallFile, writeNewFile } from '../../platform/io/small-files.js';
import { runSync } from '../../work/work.js';

/** Longest record to read: of some 100,000 files. */
const MAX_RECORD_BYTE_LENGTH = 2 ** 24;

/** Length and modification time of a file, which a rename and a hard link keep. */
type FileState = string;

/** The states of files by their names. A name can have two: of the old file, and of the new one. */
export class ReplacementRecord {
  readonly #states = new Map<string, Set<FileState>>();

  /** Reads the record of a killed replacement; empty without one. */
  static read(path: string): ReplacementRecord {
    const record = new ReplacementRecord();
    try {
      if (Number(lstatSync(path).size) > MAX_RECORD_BYTE_LENGTH) return record;
      const { files } = JSON.parse(runSync(readSmallFile(path)).toString());
      for (const [name, state] of files) record.#add(String(name), String(state));
    } catch {
      // A record that cannot be read lists nothing.
    }
    return record;
  }

  /** Adds a file that is at the path now, under the name that it has or gets. */
  add(name: string, path: string): void {
    const state = stateAt(path);
    if (state !== undefined) this.#add(name, state);
  }

  #add(name: string, state: FileState): void {
    const states = this.#states.get(name) ?? new Set();
    this.#states.set(name, states.add(state));
  }

  /** Whether the file of this name in the folder is one of those recorded. */
  has(folder: string, name: string): boolean {
    const states = this.#states.get(name);
    if (states === undefined) return false;
    const state = stateAt(join(folder, name));
    return state !== undefined && states.has(state);
  }

  /**
   * Writes the record to a path, through a temporary file.
   *
   * @throws errors of the system; the path has the old record then
   */
  async write(
    path: string,
    temporaryPath: string,
    options: { readonly durable: boolean },
  ): Promise<void> {
    const files = [...this.#states].flatMap(([name, states]) =>
      Array.from(states, (state) => [name, state]),
    );
    await writeNewFile(temporaryPath, `${JSON.stringify({ files })}\n`, options);
    try {
      await rename(temporaryPath, path);
    } catch (error) {
      await rm(temporaryPath, { force: true });
      throw error;
    }
  }
}

/** Undefined where nothing is, and for a name that no file can have. */
function stateAt(path: string): FileState | undefined {
  let stats: BigIntStats | undefined;
  try {
    stats = lstatSync(path, { bigint: true, throwIfNoEntry: false });
  } catch {
    return undefined;
  }
  return stats && `${stats.size} ${stats.mtimeNs}`;
}
