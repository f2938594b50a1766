/** Plans downloads of whole files: the weights, their index, and the files next to them. */

import { FormatError, RemoteError } from '../../errors/errors.js';
import { encodeIndex } from '../../file/shards/checkpoint-index-writer.js';
import { checkFileStart } from '../../header/file-start.js';
import type { Header } from '../../header/header.js';
import { ofEach } from '../../work/scope.js';
import { emptyReport } from '../../write/selection/selection-report.js';
import { readRemoteHeader } from '../read-header.js';
import type { RemoteFile } from '../remote-file.js';
import type { DownloadItem, DownloadItems, IndexItem } from './download-item.js';
import { type ModelFiles, otherFiles, type PlaceOf } from './model-files.js';
import { knownFile } from './receive.js';
import {
  isNamedSafetensors,
  QUESTIONS_AT_ONCE,
  type SourceFile,
  type SourceFiles,
  splitPath,
} from './source-files.js';

/**
 * Plans the download of a file, of an index and its shards, or of the model in a folder with the files
 * next to it.
 *
 * @throws As `SourceFiles.find`; RemoteError `SAFETENSORS_XET_ONLY`; FormatError for a file without a hash whose first
 *   bytes are not safetensors. The files themselves reject an invalid header once they are received
 */
export async function planWhole(
  source: SourceFiles,
  model: ModelFiles,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<DownloadItems> {
  const weights = await weightsOf(source, model, placeOf, signal);
  const { others, skipped } = await otherFiles(source, placeOf, signal);
  const { commit = null } = source.hub ?? {};
  const models = [{ prefix: '', weights, index: indexOf(model), obsolete: [] }];
  const facts = { configMismatches: [], conflicts: [], totalSize: null, skipped };
  const plan = { commit, models, others, isAddition: false, ...facts };
  return { ...plan, tensorsIn: tensorsAmong(weights, placeOf), report: emptyReport() };
}

/**
 * The files with a model's tensors.
 *
 * @throws As `requireReceivable`; RemoteError
 */
export async function weightsOf(
  source: SourceFiles,
  { file, index, shards }: ModelFiles,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<SourceFile[]> {
  const [prefix] = splitPath(file.name);
  // Ask servers without lists about several files at a time.
  const find = async (
    [listed, name]: readonly [string, string],
    ends: AbortSignal,
  ): Promise<SourceFile> => {
    const found = await source.find(prefix + name, ends);
    // Saved by the name in the index, which any program finds.
    return { ...found, name: prefix + listed };
  };
  const weights =
    index === null && shards.size === 1
      ? [file]
      : await ofEach(shards, QUESTIONS_AT_ONCE, find, signal);
  for (const weight of weights) requireReceivable(weight, placeOf(weight));
  return weights;
}

/** Reads the names of tensors from the headers of files that have the name of a safetensors file, here or there. */
export function tensorsAmong(
  files: readonly SourceFile[],
  placeOf: PlaceOf,
): DownloadItems['tensorsIn'] {
  const known = new Map<DownloadItem, SourceFile>(files.map((file) => [file, file]));
  return async (wanted, signal) => {
    const found = known.get(wanted);
    return found !== undefined && isNamedSafetensors(found.name, placeOf(wanted))
      ? await tensorNamesIn(found, signal)
      : null;
  };
}

/**
 * Throws for a file that cannot be received, or that is not what its name says.
 *
 * @throws RemoteError `SAFETENSORS_XET_ONLY`; FormatError
 */
export function requireReceivable(file: SourceFile, place: string): void {
  requireHttp(file);
  requireStart(file, place);
}

function requireHttp({ file, byteLength, isXetOnly }: SourceFile): void {
  if (!isXetOnly) return;
  const message =
    `found a file of ${byteLength} bytes, which the Hub gives out by its Xet protocol only; ` +
    'the `hf` command downloads it';
  throw new RemoteError('SAFETENSORS_XET_ONLY', message, { path: file.path });
}

/** Checks the first bytes of files named as safetensors: servers also report errors with status 200. */
function requireStart(found: SourceFile, place: string): void {
  const { file, start, byteLength } = found;
  if (start === null || !isNamedSafetensors(found.name, place)) return;
  checkFileStart(start, byteLength, { path: file.path });
}

/** Names from the header; null for other files, whatever their names. */
async function tensorNamesIn(found: SourceFile, signal: AbortSignal): Promise<string[] | null> {
  try {
    return (await headerOf(found, signal)).names();
  } catch (error) {
    if (error instanceof FormatError) return null;
    throw error;
  }
}

/**
 * Reads the header of a file, also from a server without ranges.
 *
 * @throws FormatError; RemoteError
 */
export async function headerOf(found: SourceFile, signal: AbortSignal): Promise<Header> {
  const { file } = found;
  const lacksRanges = (): boolean => file.lacksRanges;
  try {
    if (!lacksRanges()) return await readRemoteHeader(file, undefined, signal);
  } catch (error) {
    if (!lacksRanges()) throw error;
  }
  return await readRemoteHeader(cutFile(found), undefined, signal);
}

/** A file on a server without ranges, whose start is read from answers that are cut off. */
function cutFile({ file, byteLength }: SourceFile): RemoteFile {
  return {
    path: file.path,
    readStart: async (length, signal) => {
      const { bytes } = await file.readHead(length, signal as AbortSignal);
      return { bytes, fileByteLength: byteLength };
    },
    readInto: async (target, position, { signal } = {}) => {
      const end = position + target.length;
      const { bytes } = await file.readHead(end, signal as AbortSignal);
      target.set(bytes.subarray(position));
    },
  };
}

/** The index of a model, if it has one. */
export function indexOf({ file, index }: Pick<ModelFiles, 'file' | 'index'>): IndexItem | null {
  if (index === null) return null;
  const { bytes, parsed } = index;
  function* weightMap(nameOf: (name: string) => string): Generator<[string, string], void, void> {
    for (let entry = 0; entry < parsed.size; entry++) {
      yield [parsed.name(entry), nameOf(parsed.shards[parsed.shardOf(entry)] as string)];
    }
  }
  const interimIndex: IndexItem['interimIndex'] = (nameOf) =>
    encodeIndex(new Map(parsed.metadata), weightMap(nameOf));
  const { name, hash, version } = file;
  return { ...knownFile({ name, hash, version }, bytes), interimIndex };
}
