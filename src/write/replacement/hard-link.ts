/** Gives a file a second name, replacing the file of that name in one step. */

import { constants } from 'node:fs';
import { link, rename, rm } from 'node:fs/promises';
import { alwaysOpen } from '../../platform/io/acquirable-file.js';
import { retryWithoutDropped } from '../../platform/io/dropped-files.js';
import { closeQuietly, openPath, statOpened } from '../../platform/io/file-calls.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { writePieces } from '../../platform/io/write-pieces.js';
import { Transfer } from '../../work/transfer.js';
import { runAsync } from '../../work/work.js';
import type { Replacement } from './replacement.js';

/** Errors after which a file is copied instead of linked. */
const LINK_REFUSALS: readonly string[] = [
  'EPERM',
  'EACCES',
  'ENOTSUP',
  'ENOSYS',
  'EMLINK',
  'EXDEV',
];

/** The second name to give. */
interface SecondName {
  readonly path: string;
  /** A free path in the same folder. */
  readonly temporaryPath: string;
  /** Makes a file of that length for a copy. */
  openCopy(byteLength: number): Promise<Replacement>;
  /** Runs when a copy is complete, before it gets its name. */
  copied(): Promise<void>;
}

/** Links the file where the file system can, else copies it. Syncs only the bytes of a copy. */
export async function linkOrCopy(source: string, name: SecondName): Promise<void> {
  const { path, temporaryPath } = name;
  try {
    await link(source, temporaryPath);
  } catch (error) {
    if (!hasCode(error, LINK_REFUSALS)) throw error;
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

async function copyTo(source: string, { path, openCopy, copied }: SecondName): Promise<void> {
  const fd = await runAsync(
    retryWithoutDropped(() => openPath(source, constants.O_RDONLY)),
    undefined,
  );
  try {
    const file = { fd, path: source };
    const byteLength = Number((await runAsync(statOpened(file), undefined)).size);
    const copy = await openCopy(byteLength);
    try {
      const from = { file: alwaysOpen(file), position: 0 };
      const whole = { position: 0, byteLength, source: from };
      await writePieces(copy, [whole], new Transfer(byteLength, {}));
      await copy.finish();
      await copied();
      await copy.moveTo(path);
    } finally {
      copy.discard();
    }
  } finally {
    closeQuietly(fd);
  }
}
