/**
 * Finds the files next to the weights of a checkpoint, such as `config.json` and the tokenizer's, and copies them into
 * the folder of another checkpoint.
 */

import { readdirSync, type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { insideOf, rejectLink } from '../../file/checkpoint/find-files.js';
import { hasWeightsName } from '../../file/shards/shard-paths.js';
import { alwaysOpen } from '../../platform/io/acquirable-file.js';
import { retryHere } from '../../platform/io/dropped-files.js';
import { closeQuietly, identityOf } from '../../platform/io/file-calls.js';
import { changeCheck, openRegularFile } from '../../platform/io/opened-file.js';
import { type Write, writePieces } from '../../platform/io/write-pieces.js';
import { type LeasableStorage, verifyOpen } from '../../tensor/storage/storage.js';
import type { Transfer } from '../../work/transfer.js';
import { runSync } from '../../work/work.js';
import type { ConfigMismatch } from './cast-config.js';
import type { FolderReplacement } from './folder-replacement.js';

/**
 * Larger files are left out: they are weights in an unknown format. Tokenizers have some 30 MB at most.
 */
export const MAX_OTHER_BYTE_LENGTH: number = 256 * 2 ** 20;

/** Whether a file name is neither of weights, nor of an index of weights, nor hidden. */
export function isOtherName(name: string): boolean {
  return !name.startsWith('.') && !hasWeightsName(name);
}

/** The option that copies files next to the weights. */
export interface OtherFilesOptions {
  /**
   * Also copies the files next to the weights: `config.json`, tokenizer, chat template, README, license,
   * code and all others of up to 256 MiB. Left out by default. After a cast `config.json` lists the new dtype, if all
   * floating-point tensors have it.
   */
  readonly copyOtherFiles?: boolean | undefined;
}

/** The result for files next to the weights. */
export interface CopiedFiles {
  /** Names of the copied files, and of configurations that were rewritten for `dtype` or `dequantize`. */
  readonly copied: readonly string[];
  /**
   * Names in the source that were not copied: folders, special files and files above 256 MiB; of an archive also
   * weights that no model has.
   */
  readonly skipped: readonly string[];
  /** After a cast: configurations in the target that list a dtype which the tensors do not have. */
  readonly configMismatches: readonly ConfigMismatch[];
}

/** A file to copy under its name. */
export interface SidecarFile {
  readonly name: string;
  readonly path: string;
  /** Its length in bytes when it was found, or that of its new contents. */
  readonly byteLength: number;
  /** What is written in place of its bytes. */
  readonly contents?: Uint8Array;
  /** Of a file within an archive: the archive, and where the file begins in it. */
  readonly within?: { readonly storage: LeasableStorage; readonly begin: number };
}

/** The files next to the weights. */
export interface SidecarFiles {
  readonly files: readonly SidecarFile[];
  /** Names that are not copied: folders, special files and large files. */
  readonly skipped: readonly string[];
  /** Names of files of the target that are wrong next to the new checkpoint, and deleted with the old one. */
  readonly obsolete: readonly string[];
}

/** The answer when nothing is to be copied. */
export const NO_OTHER_FILES: SidecarFiles = { files: [], skipped: [], obsolete: [] };

/**
 * Finds the files directly in the folder `source` that hold no weights and whose names do not begin with a dot. Empty
 * when `source` is the folder `target`. `except` is the name of a file of weights whose extension does not tell:
 * NumPy's is used for other data, too.
 *
 * @throws FormatError `SAFETENSORS_UNSAFE_SHARD_NAME` for a link out of the folder; errors of the system, such as
 *   `ENOENT` for a dangling link
 */
export function findOtherFiles(source: string, target: string, except?: string): SidecarFiles {
  const files: SidecarFile[] = [];
  const skipped: string[] = [];
  if (isSameFolder(source, target)) return NO_OTHER_FILES;
  const isInside = runSync(insideOf(source));
  for (const name of retryHere(() => readdirSync(source)).sort()) {
    if (name === except || !isOtherName(name)) continue;
    const path = join(source, name);
    const stats = statSync(path);
    if (!isCarried(stats)) {
      skipped.push(name);
      continue;
    }
    if (!runSync(isInside(path))) rejectLink(source, name);
    files.push({ name, path, byteLength: stats.size });
  }
  return { files, skipped, obsolete: [] };
}

/** Whether two paths lead to one folder. */
export function isSameFolder(source: string, target: string): boolean {
  // A dry run does not make the folder.
  const stats = statSync(target, { bigint: true, throwIfNoEntry: false });
  return (
    stats !== undefined && identityOf(stats) === identityOf(statSync(source, { bigint: true }))
  );
}

function isCarried(stats: Stats): boolean {
  return stats.isFile() && stats.size <= MAX_OTHER_BYTE_LENGTH;
}

/**
 * Copies a file to a temporary one, which gets its name with the new checkpoint.
 *
 * @throws FileChangedError when the file changes meanwhile; errors of the system; `signal.reason`
 */
export async function copyOtherFile(
  { name, path, byteLength, contents, within }: SidecarFile,
  replacement: FolderReplacement,
  transfer: Transfer,
): Promise<void> {
  const write = async (length: number, source: Write['source']): Promise<void> => {
    const file = await replacement.createOther(name, length);
    await writePieces(file, [{ position: 0, byteLength: length, source }], transfer.part);
    await file.finish(transfer.signal);
  };
  if (contents !== undefined) {
    await write(contents.byteLength, (begin, end) => contents.subarray(begin, end));
    return;
  }
  if (within !== undefined) {
    const { storage, begin } = within;
    verifyOpen(storage);
    const lease = storage.acquireDescriptor();
    try {
      await write(byteLength, { file: alwaysOpen({ fd: lease.fd, path }), position: begin });
      verifyOpen(storage);
    } finally {
      lease.release();
    }
    return;
  }
  const source = runSync(openRegularFile(path, path));
  try {
    const requireSame = changeCheck(source);
    await write(source.byteLength, { file: alwaysOpen(source), position: 0 });
    requireSame();
  } finally {
    closeQuietly(source.fd);
  }
}
