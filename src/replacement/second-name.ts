/** Gives a file a second name in place of another file, without a moment at which there is none. */

import { link, open, rename, rm } from 'node:fs/promises';
import { copyRange } from '../io/file-copy.js';
import { hasCode } from '../io/system-errors.js';
import type { Replacement } from './replacement.js';

/** What file systems without hard links answer. */
const CANNOT_LINK: readonly string[] = ['EPERM', 'EACCES', 'ENOTSUP', 'ENOSYS', 'EMLINK', 'EXDEV'];

/** Bytes per copy, between which other work has its turn. */
const COPY_BYTE_LENGTH = 64 * 2 ** 20;

/** What stands for the second name until it is given. */
export interface SecondName {
  readonly path: string;
  /** A path of the same folder at which there is nothing. */
  readonly temporaryPath: string;
  /** A new file for a copy of so many bytes; not finished. */
  openCopy(byteLength: number): Promise<Replacement>;
}

/** A link where the file system has links, else a copy. Nothing is synced but the copy's bytes. */
export async function giveSecondName(source: string, name: SecondName): Promise<void> {
  const { path, temporaryPath } = name;
  try {
    await link(source, temporaryPath);
  } catch (error) {
    if (!hasCode(error, CANNOT_LINK)) throw error;
    await copyTo(source, name);
    return;
  }
  try {
    await rename(temporaryPath, path);
  } catch (error) {
    await rm(temporaryPath, { force: true });
    throw error;
  }
}

async function copyTo(source: string, { path, openCopy }: SecondName): Promise<void> {
  const handle = await open(source);
  try {
    const { size } = await handle.stat();
    const copy = await openCopy(size);
    try {
      const from = { fd: handle.fd, path: source };
      for (let at = 0; at < size; at += COPY_BYTE_LENGTH) {
        await copyRange(from, at, copy, at, Math.min(COPY_BYTE_LENGTH, size - at));
      }
      await copy.finish();
      await copy.moveTo(path);
    } finally {
      copy.discard();
    }
  } finally {
    await handle.close();
  }
}
