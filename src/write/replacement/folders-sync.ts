/** Syncs the folders of new files: inner ones, and those in which there are new folders. */

import { dirname, resolve, sep } from 'node:path';
import { syncFolder } from './folder-sync.js';
import { foldersOf } from './inner-paths.js';

/** Syncs the folder and those between it and its files, by their names below it, with `/`; inner ones first. */
export async function syncFolders(folder: string, names: Iterable<string>): Promise<void> {
  const inner = new Set([...names].flatMap((name) => foldersOf(folder, name)));
  for (const path of [folder, ...inner].reverse()) await syncNamed(path);
}

/**
 * Syncs the names of new folders, from `folder` up to `made`. Without new folders, syncs the name of `folder`: a
 * process that crashed may have made it without syncing.
 */
export async function syncMade(folder: string, made: string = folder): Promise<void> {
  const top = dirname(resolve(made));
  for (let above = dirname(resolve(folder)); ; above = dirname(above)) {
    await syncNamed(above);
    if (above === top) return;
  }
}

async function syncNamed(folder: string): Promise<void> {
  await syncFolder(Buffer.from(folder + sep), folder);
}
