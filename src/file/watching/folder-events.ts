/** Events of folders: calls back when the system reports that something changed in one of them. */

import { type FSWatcher, type WatchListener, watch } from 'node:fs';

/** A watched folder, which another one with its path may have replaced. */
interface Watched {
  readonly identity: string;
  readonly watcher: FSWatcher;
}

/**
 * Watches folders, not files: a rename over a file ends the watch of a file. File systems without events, such as those
 * of a network, report nothing, and a folder that the system does not watch is skipped: callers also look by themselves
 * from time to time. Keeps no process alive.
 */
export class FolderEvents {
  readonly #onEvent: WatchListener<string>;
  readonly #watched = new Map<string, Watched>();
  #isClosed = false;

  /** `onEvent` gets `rename` or `change`, and the name of the file, or null where the system reports none. */
  constructor(onEvent: WatchListener<string>) {
    this.#onEvent = onEvent;
  }

  /** Watches these folders, given with their identities, and no others. */
  follow(folders: ReadonlyMap<string, string>): void {
    if (this.#isClosed) return;
    for (const [folder, { identity }] of this.#watched) {
      if (folders.get(folder) !== identity) this.#drop(folder);
    }
    for (const [folder, identity] of folders) {
      if (!this.#watched.has(folder)) this.#add(folder, identity);
    }
  }

  close(): void {
    this.#isClosed = true;
    for (const folder of [...this.#watched.keys()]) this.#drop(folder);
  }

  #add(folder: string, identity: string): void {
    try {
      const watcher = watch(folder, { persistent: false }, this.#onEvent);
      this.#watched.set(folder, { identity, watcher });
      // Such as that of a folder which was deleted, on Windows.
      watcher.on('error', () => {
        if (this.#watched.get(folder)?.watcher === watcher) this.#drop(folder);
      });
    } catch {
      // Too many are watched, or the folder is gone.
    }
  }

  #drop(folder: string): void {
    this.#watched.get(folder)?.watcher.close();
    this.#watched.delete(folder);
  }
}
