/**
 * The files beside the weights of a checkpoint, such as `config.json` and those of the tokenizer: finds
 * them, and copies them into the folder of another checkpoint.
 */

import { readdirSync, type Stats, statSync } from 'node:fs';
import { join } from 'node:path';
import { insideOf, refuseLink } from '../../file/checkpoint/find-files.js';
import { hasWeightsExtension } from '../../file/shards/shard-paths.js';
import { closeQuietly } from '../../platform/io/file-calls.js';
import { changeCheck, openRegularFile } from '../../platform/io/opened-file.js';
import { runSync } from '../../platform/io/steps.js';
import { writePieces } from '../../platform/io/write-pieces.js';
import type { Transfer } from '../../platform/transfer/transfer.js';
import { identityOf } from '../replacement/exchange.js';
import type { FolderReplacement } from './folder-replacement.js';

/**
 * Larger files are not carried along: they are weights in a format that is not known here. Tokenizers
 * have some 30 MB at most.
 */
export const MAX_OTHER_BYTE_LENGTH: number = 256 * 2 ** 20;

/** The end of the name of an index, behind the extension of the weights. */
const INDEX_END = /\.index(?:\.[^.]+)?\.json$/i;

/** Whether a file of this name holds no weights, is no index of such, and is not hidden. */
export function isOtherName(name: string): boolean {
  return !name.startsWith('.') && !hasWeightsExtension(name.replace(INDEX_END, ''));
}

/** Whether files beside the weights are copied, too. */
export interface OtherFilesOptions {
  /**
   * Also copies the files beside the weights: `config.json`, tokenizer, chat template, README, license,
   * code and all others of up to 256 MiB. Left out by default.
   */
  readonly copyOtherFiles?: boolean | undefined;
}

/** Which files beside the weights were copied. */
export interface CopiedFiles {
  /** Names of the files beside the weights that were copied. */
  readonly copied: readonly string[];
  /** Names of folders, special files and files above 256 MiB in the source, which were not copied. */
  readonly skipped: readonly string[];
}

/** A file to be copied under its name. */
export interface OtherFile {
  readonly name: string;
  readonly path: string;
  /** Its length when it was found. */
  readonly byteLength: number;
}

/** The files beside the weights, by their place in the folder. */
export interface OtherFiles {
  readonly files: readonly OtherFile[];
  /** Names of what cannot be carried along: folders, special files and large files. */
  readonly skipped: readonly string[];
}

/** When none are to be copied. */
export const NO_OTHER_FILES: OtherFiles = { files: [], skipped: [] };

/**
 * The files directly in the folder `source` that hold no weights and whose names do not begin with a
 * dot. None when it is the folder `target`, where they are already. `except` is the name of one that does
 * hold weights: arrays of NumPy have the extension of other things, too.
 *
 * @throws FormatError `SAFETENSORS_UNSAFE_SHARD_NAME` for a link out of the folder; errors of the
 *   system, such as `ENOENT` for a link that leads nowhere
 */
export function findOtherFiles(source: string, target: string, except?: string): OtherFiles {
  const files: OtherFile[] = [];
  const skipped: string[] = [];
  if (isSameFolder(source, target)) return { files, skipped };
  const isInside = runSync(insideOf(source));
  for (const name of readdirSync(source).sort()) {
    if (name === except || !isOtherName(name)) continue;
    const path = join(source, name);
    const stats = statSync(path);
    if (!isCarried(stats)) {
      skipped.push(name);
      continue;
    }
    if (!runSync(isInside(path))) refuseLink(source, name);
    files.push({ name, path, byteLength: stats.size });
  }
  return { files, skipped };
}

function isSameFolder(source: string, target: string): boolean {
  // A dry run makes no folder.
  const stats = statSync(target, { bigint: true, throwIfNoEntry: false });
  return (
    stats !== undefined && identityOf(stats) === identityOf(statSync(source, { bigint: true }))
  );
}

function isCarried(stats: Stats): boolean {
  return stats.isFile() && stats.size <= MAX_OTHER_BYTE_LENGTH;
}

/**
 * Copies a file, which takes its place with the new checkpoint.
 *
 * @throws FileChangedError when it changes meanwhile; errors of the system; `signal.reason`
 */
export async function copyOtherFile(
  { name, path }: OtherFile,
  replacement: FolderReplacement,
  transfer: Transfer,
): Promise<void> {
  const source = runSync(openRegularFile(path, path));
  try {
    const requireSame = changeCheck(source);
    const { byteLength } = source;
    const file = await replacement.createOther(name, byteLength);
    const whole = { position: 0, byteLength, source: { file: source, position: 0 } };
    await writePieces(file, [whole], transfer.part);
    requireSame();
    await file.finish(transfer.signal);
  } finally {
    closeQuietly(source.fd);
  }
}
