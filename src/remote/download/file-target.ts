/** Downloads one file to a path. */

import { basename, dirname, join } from 'node:path';
import { statsOf } from '../../platform/io/file-calls.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { isOpenedAt } from '../../write/replacement/exchange.js';
import { requireNotInUse } from '../../write/replacement/in-use.js';
import { inTurn, waitForLock } from '../../write/replacement/locks.js';
import {
  type ReplacedFile,
  replacedAmong,
  requireOverwrite,
} from '../../write/replacement/replaced-files.js';
import { Replacement } from '../../write/replacement/replacement.js';
import { resolveTarget } from '../../write/replacement/target.js';
import type { DownloadItem, DownloadScope } from './download-item.js';
import { requireFreeSpace } from './free-space.js';
import { deleteOtherPartials, isAlreadyThere, note, partialNameOf } from './partial-files.js';
import type { ReceivedBytes } from './receive-all.js';
import { unrecordedAmong } from './repository-record.js';
import type { TargetOptions } from './target-options.js';

/** A received file, and the one that it replaced, if there was one. */
interface DownloadedToFile extends ReceivedBytes {
  readonly replaced: readonly ReplacedFile[];
}

/** Lists the file that a download to a path would replace: none where the right one is. */
export async function replacedAt(
  planned: DownloadItem,
  path: string,
  signal: AbortSignal,
): Promise<ReplacedFile[]> {
  const isThere = await isAlreadyThere(path, planned, signal);
  return isThere ? [] : replacedAmong(dirname(path), [basename(path)]);
}

/**
 * Downloads a file to a path and replaces the old file. Locks the temporary file: another process that downloads the
 * same version of the file waits, and finds it done.
 *
 * @throws As `saveFile`, `SAFETENSORS_LOCKED`
 */
export async function downloadToFile(
  planned: DownloadItem,
  path: string,
  options: TargetOptions,
  scope: DownloadScope,
): Promise<DownloadedToFile> {
  const { path: real } = resolveTarget(path, path);
  const realPath = real.toString();
  return await inTurn(realPath, scope.signal, async () => {
    for (;;) {
      const received = await tryToReceive(planned, path, realPath, options, scope);
      if (received !== undefined) return received;
    }
  });
}

/** Undefined if another process has moved the temporary file while this one waited for the lock. */
async function tryToReceive(
  planned: DownloadItem,
  path: string,
  realPath: string,
  options: TargetOptions,
  scope: DownloadScope,
): Promise<DownloadedToFile | undefined> {
  const { transfer, signal } = scope;
  const { byteLength } = planned;
  if (await isAlreadyThere(realPath, planned, signal)) {
    transfer.finish();
    return { downloadedBytes: 0, reusedBytes: byteLength, replaced: [] };
  }
  const { durable, lockTimeout } = options;
  const [folder, name] = [dirname(realPath), basename(realPath)];
  const findReplaced = async (): Promise<ReplacedFile[]> => {
    const found = replacedAmong(dirname(path), [basename(path)]);
    const foreign = await unrecordedAmong(found, dirname(path), options, signal);
    requireOverwrite(foreign, path, options);
    return found;
  };
  const replaced = await findReplaced();
  requireNotInUse(path, path);
  await deleteOtherPartials(folder, name, planned);
  const temporaryName = partialNameOf(name, planned);
  const isKept = temporaryName !== undefined;
  const replacement = await Replacement.open(path, path, {
    byteLength: isKept ? 0 : byteLength,
    durable,
    temporaryName,
    isKept,
  });
  try {
    if (isKept) {
      await waitForLock(replacement.fd, path, { lockTimeout, signal });
      if (!isOpenedAt(join(folder, temporaryName), replacement.fd)) return undefined;
      const { size } = statsOf(replacement);
      await requireFreeSpace(folder, byteLength - Number(size), path);
    }
    const { hash, ...received } = await planned.receive(replacement, realPath, scope);
    await note(realPath, planned, hash);
    transfer.finish();
    // Another program may have put weights there meanwhile, even the right ones.
    if (!(await isAlreadyThere(realPath, planned, signal))) await findReplaced();
    await replacement.commit(signal);
    return { ...received, replaced };
  } catch (error) {
    // The lock ends before the rename: another process took the file and renamed it.
    if (!isKept || !hasCode(error, ['ENOENT'])) throw error;
    return undefined;
  } finally {
    replacement.discard();
  }
}
