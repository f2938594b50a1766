/** Detects the format of a local checkpoint, by the first bytes of a file and, where these are ambiguous, by names. */

import { statSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { SafetensorsError } from '../../errors/errors.js';
import type { FoundFormat } from '../../errors/found-format.js';
import type { CheckpointFormat } from '../../file/checkpoint/checkpoint.js';
import { lastingNames } from '../../file/checkpoint/find-files.js';
import { isCachedId } from '../../file/checkpoint/find-source.js';
import { modelsOf } from '../../file/checkpoint/pipeline.js';
import { isConvertibleName, isIndexPath, isTorchIndexName } from '../../file/shards/file-choice.js';
import { PIPELINE_FILE } from '../../file/shards/file-names.js';
import { isDistributed, METADATA_FILE } from '../../file/shards/incomplete-models.js';
import { hasModel } from '../../file/shards/model-choice.js';
import { TORCH_SHARD_EXTENSION } from '../../file/shards/shard-paths.js';
import { fileKindOf, isSafetensorsStart, isUnreadKind } from '../../foreign/file-kind.js';
import { splitNameOf } from '../../foreign/gguf/header/split-names.js';
import { lookInto } from '../../foreign/open-file.js';
import { firstEntryName } from '../../foreign/zip/local-header.js';
import { foreignFormatOf } from '../../header/foreign-formats.js';
import { formatOfParts } from '../../header/foreign-names.js';
import { requirePath } from '../../platform/io/paths.js';
import { aboutFile, hasCode } from '../../platform/io/system-errors.js';
import { runSync } from '../../work/work.js';

/** The result of {@link detectFormat}. */
export interface DetectedFormat {
  /** The path to open: the given path, or that of a torch, NumPy or GGUF file in the given folder. */
  readonly path: string;
  /**
   * The function that opens it: `safeOpen`, `open`. `safetensors` also for a file
   * without the signature of any format, for which `safeOpen` throws the reason. Null for other formats.
   */
  readonly format: CheckpointFormat | null;
  /**
   * The format of the file, as errors name it: `checkpoint-index` for any index. Null for folders and ids that
   * `safeOpen` opens, and for unknown formats.
   */
  readonly foundFormat: FoundFormat | null;
}

/** Usual names of torch checkpoints in folders; an index comes before a file. */
const TORCH_NAMES: readonly string[] = [
  'pytorch_model.bin.index.json',
  'diffusion_pytorch_model.bin.index.json',
  'pytorch_model.bin',
  'diffusion_pytorch_model.bin',
];
/** In an index, the name of the first shard. */
const FIRST_SHARD = /"weight_map"\s*:\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*"((?:[^"\\]|\\.)*)"/s;

/**
 * Detects the format of a file, an index, a folder, or a repository in the Hub cache.
 *
 * - Of a file the first 64 KiB decide. Its name counts where these do not tell: for an archive whose first entry may be
 *   of torch or of NumPy, and for an index (`.json`) whose first shard is not named so early.
 * - In a folder the names decide: a safetensors checkpoint comes before a distributed one (`.metadata` with `.distcp`
 *   files, or safetensors files of ranks), and that before a torch checkpoint of a usual name
 *   (`pytorch_model.bin` or its index, `diffusion_pytorch_model.bin`), and that before the only other file of torch or
 *   NumPy, and that before the only GGUF model.
 * - A repository in the Hub cache is always `safetensors`: none of its files is read.
 * - For a path that does not exist the name decides which function's error says so.
 *
 * Reads on the calling thread, before it returns: at most the names in the folder and 64 KiB. In the folder of a
 * pipeline that also has such other files, the names in its folders too. Keeps no file open.
 *
 * @throws TypeError when `source` is neither a path nor a `file:` URL; Error Node's own, such as `EACCES` or `EMFILE`,
 *   for a path that cannot be read
 */
export async function detectFormat(source: string | URL): Promise<DetectedFormat> {
  const path = requirePath('source', source);
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
  if (!isFolder)
    return isListOfPieces(path) ? { path, format: 'dcp', foundFormat: null } : formatOfFile(path);
  const names = namesIn(path);
  if (isDistributed(names) && !isSafetensors(path, names)) {
    return { path, format: 'dcp', foundFormat: null };
  }
  const other = otherIn(path, names);
  return other === undefined || isSafetensors(path, names)
    ? safetensors(path)
    : formatOfFile(other);
}

/** Whether a path is that of the list of a distributed checkpoint, which is next to its files. */
function isListOfPieces(path: string): boolean {
  return basename(path) === METADATA_FILE && isDistributed(namesIn(dirname(path)));
}

/** Whether `safeOpen` finds something to open, valid or not. Compares only names: `safeOpen` reads the index. */
function isSafetensors(folder: string, names: readonly string[]): boolean {
  return hasModel(names) || (names.includes(PIPELINE_FILE) && runSync(modelsOf(folder)).length > 0);
}

/** Returns the torch checkpoint in a folder, by its usual name, or the only file of another format. */
function otherIn(folder: string, names: readonly string[]): string | undefined {
  // The torch files in such a folder are parts.
  if (formatOfParts(names) !== null) return undefined;
  const usual = TORCH_NAMES.find((name) => names.includes(name));
  const others = names.filter(isConvertibleName);
  const [only, ...more] = others.length > 0 ? others : ggufModelsIn(names);
  const name = usual ?? (more.length === 0 ? only : undefined);
  return name === undefined ? undefined : join(folder, name);
}

/** The GGUF files among names; of a split model the first. */
function ggufModelsIn(names: readonly string[]): string[] {
  const firsts = names.map((name) => splitNameOf(name)?.nameOf(1) ?? name);
  return [...new Set(firsts)].filter((name) => /\.gguf$/i.test(name));
}

/** Empty without permission to read the folder: files in it can still be opened by their usual names. */
function namesIn(folder: string): readonly string[] {
  try {
    return runSync(lastingNames(folder));
  } catch (error) {
    if (hasCode(error, ['EACCES', 'EPERM'])) return [];
    throw aboutFile(error, folder);
  }
}

function safetensors(path: string): DetectedFormat {
  return { path, format: 'safetensors', foundFormat: null };
}

function formatOfFile(path: string): DetectedFormat {
  const found = statSync(path, { throwIfNoEntry: false });
  const isTorchName = isConvertibleName(path) || isTorchIndexName(path);
  if (found === undefined && isTorchName && !runSync(isCachedId(path))) {
    return { path, format: 'torch', foundFormat: null };
  }
  if (found?.isFile() !== true) return safetensors(path);
  const formatOf = isIndexPath(path) ? formatOfIndex : formatOfStart;
  try {
    return lookInto(path, (start) => ({ path, ...formatOf(path, start) }));
  } catch (error) {
    if (!(error instanceof SafetensorsError)) throw error;
    return safetensors(path);
  }
}

/** Decides by the first shard's name; by the index's own name if no shard is named near the start. */
function formatOfIndex(path: string, start: Uint8Array): Omit<DetectedFormat, 'path'> {
  const [, shard] = FIRST_SHARD.exec(new TextDecoder().decode(start)) ?? [];
  const isTorch = shard?.endsWith(TORCH_SHARD_EXTENSION) ?? isTorchIndexName(path);
  return { format: isTorch ? 'torch' : 'safetensors', foundFormat: 'checkpoint-index' };
}

function formatOfStart(path: string, start: Uint8Array): Omit<DetectedFormat, 'path'> {
  // First, because a header's length may look like the mark of an archive.
  if (isSafetensorsStart(start)) return { format: 'safetensors', foundFormat: 'safetensors' };
  const kind = fileKindOf(start);
  const foundFormat = foreignFormatOf(start, path)?.format ?? null;
  if (isUnreadKind(start, path)) return { format: null, foundFormat };
  if (kind === 'gguf') return { format: 'gguf', foundFormat };
  if (kind === 'npy') return { format: 'numpy', foundFormat };
  if (kind === 'pickle') return { format: 'torch', foundFormat };
  if (kind === undefined) {
    // No header has 2^48 bytes.
    const isTooLong = (start[6] ?? 0) !== 0 || (start[7] ?? 0) !== 0;
    return { format: isTooLong || foundFormat !== null ? null : 'safetensors', foundFormat };
  }
  // Opening the archive reads its directory. NumPy's arrays usually have this ending; records of torch are in a
  // folder.
  const name = firstEntryName(start);
  const isNumpy = name.endsWith('.npy') || (/\.npz$/i.test(path) && !name.includes('/'));
  return { format: isNumpy ? 'numpy' : 'torch', foundFormat };
}
