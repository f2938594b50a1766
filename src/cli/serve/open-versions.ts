/** Retains open files between requests: opening one takes several times as long as reading a few rows from it. */

import process from 'node:process';
import { closeFile } from '../../platform/io/file-calls.js';
import { runAsync } from '../../work/work.js';
import type { ServedFile } from './model-files.js';
import { type OpenedVersion, openVersion } from './named-file.js';

/** Files without a request are closed after this time. */
const IDLE_MS = 250;

/** Maximum number of files that are open without a request. */
const MAX_IDLE = 32;

/** On Windows, an open file can't be replaced. */
const IS_RETAINING = process.platform !== 'win32';

/** A version in use. `release` it once. */
export interface VersionLease {
  readonly version: OpenedVersion;
  readonly release: () => Promise<void>;
}

interface Entry {
  readonly version: OpenedVersion;
  users: number;
  timer: NodeJS.Timeout | undefined;
}

/** The open versions of one server. */
export class OpenVersions {
  /** The last version that was opened of each file; those without users in the order in which they were released. */
  readonly #entries = new Map<ServedFile, Entry>();

  /**
   * The version of a file that its path leads to now; null when it is no longer there.
   *
   * @throws As `openVersion`
   */
  async acquire(file: ServedFile): Promise<VersionLease | null> {
    const known = this.#entries.get(file);
    if (known !== undefined) {
      // Counted at once: it may otherwise be closed during the check.
      const lease = this.#lease(file, known);
      if (await known.version.isAtPath()) return lease;
      if (this.#entries.get(file) === known) this.#entries.delete(file);
      await lease.release();
    }
    const version = await openVersion(file);
    if (version === null) return null;
    const entry = { version, users: 0, timer: undefined };
    const other = this.#entries.get(file);
    if (IS_RETAINING) this.#entries.set(file, entry);
    const lease = this.#lease(file, entry);
    // Opened by a request at the same time.
    if (other?.users === 0) await close(other);
    return lease;
  }

  /** Closes the files that no request uses; the others are closed when they are released. */
  async close(): Promise<void> {
    const entries = [...this.#entries.values()];
    this.#entries.clear();
    await Promise.all(entries.filter(({ users }) => users === 0).map(close));
  }

  #lease(file: ServedFile, entry: Entry): VersionLease {
    entry.users++;
    clearTimeout(entry.timer);
    return { version: entry.version, release: () => this.#release(file, entry) };
  }

  async #release(file: ServedFile, entry: Entry): Promise<void> {
    entry.users--;
    if (entry.users > 0) return;
    if (this.#entries.get(file) !== entry) return await close(entry);
    // Moves it to the end.
    this.#entries.delete(file);
    this.#entries.set(file, entry);
    entry.timer = setTimeout(() => void this.#drop(file, entry), IDLE_MS).unref();
    const idle = [...this.#entries].filter(([, { users }]) => users === 0);
    const [oldest] = idle.length > MAX_IDLE ? idle : [];
    if (oldest !== undefined) await this.#drop(...oldest);
  }

  async #drop(file: ServedFile, entry: Entry): Promise<void> {
    if (this.#entries.get(file) === entry) this.#entries.delete(file);
    await close(entry);
  }
}

async function close({ version, timer }: Entry): Promise<void> {
  clearTimeout(timer);
  await runAsync(closeFile(version.fd), undefined);
}
