/** Plans downloads of whole files: the weights, their index, and the files beside them. */

import { FormatError, RemoteError } from '../../errors/errors.js';
import { encodeIndex } from '../../file/shards/checkpoint-index-writer.js';
import { SHARD_EXTENSION } from '../../file/shards/shard-paths.js';
import { checkFileStart } from '../../header/file-start.js';
import { emptyReport } from '../../write/selection/selection-report.js';
import type { HttpFile } from '../http-file.js';
import { readRemoteHeader } from '../read-header.js';
import { ofEach } from '../scope.js';
import { findModel, type ModelFile, otherFiles, type PlaceOf } from './model-files.js';
import { knownFile } from './receive.js';
import { QUESTIONS_AT_ONCE, type SourceFile, type SourceFiles } from './source-files.js';
import type { WantedFiles, WantedIndex } from './wanted-file.js';

/**
 * Plans the download of a file, of an index and its shards, or of the model in a folder with the files
 * beside it.
 *
 * @throws As `findModel`; RemoteError `SAFETENSORS_XET_ONLY`; FormatError for a file without a hash whose first bytes
 *   are not safetensors
 */
export async function planWhole(
  source: SourceFiles,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<WantedFiles> {
  const model = await findModel(source, placeOf, signal);
  const shards = model.index?.parsed.shards;
  // Ask servers without lists about several files at a time.
  const find = (name: string, ends: AbortSignal): Promise<SourceFile> => source.find(name, ends);
  const weights = shards ? await ofEach(shards, QUESTIONS_AT_ONCE, find, signal) : [model.file];
  for (const file of weights) {
    requireHttp(file);
    requireStart(file, placeOf(file));
  }
  const { others, skipped } = await otherFiles(source, placeOf, signal);
  const { commit = null } = source.hub ?? {};
  const tensorsIn: WantedFiles['tensorsIn'] = async (wanted, ends) => {
    const { file, name } = weights.find((each) => each === wanted) as SourceFile;
    const isNamed = [name, placeOf(wanted)].some((path) => path.endsWith(SHARD_EXTENSION));
    return isNamed ? await tensorNamesIn(file, ends) : null;
  };
  const plan = { commit, weights, others, index: indexOf(model), skipped, tensorsIn };
  return { ...plan, obsolete: [], report: emptyReport() };
}

function requireHttp({ file, byteLength, isXetOnly }: SourceFile): void {
  if (!isXetOnly) return;
  const message =
    `found a file of ${byteLength} bytes, which the Hub gives out by its Xet protocol only; ` +
    'the `hf` command downloads it';
  throw new RemoteError('SAFETENSORS_XET_ONLY', message, { path: file.path });
}

/** Checks the first bytes of files named as safetensors: servers also report errors with status 200. */
function requireStart({ file, name, start, byteLength }: SourceFile, place: string): void {
  if (start === null || ![name, place].some((path) => path.endsWith(SHARD_EXTENSION))) return;
  checkFileStart(start, byteLength, { path: file.path });
}

/** Names from the header; null for other files, whatever their names. */
async function tensorNamesIn(file: HttpFile, signal: AbortSignal): Promise<string[] | null> {
  try {
    return (await readRemoteHeader(file, undefined, signal)).names();
  } catch (error) {
    if (error instanceof FormatError) return null;
    throw error;
  }
}

function indexOf({ file, index }: ModelFile): WantedIndex | null {
  if (index === null) return null;
  const { bytes, parsed } = index;
  function* weightMap(nameOf: (name: string) => string): Generator<[string, string], void, void> {
    for (let entry = 0; entry < parsed.size; entry++) {
      yield [parsed.name(entry), nameOf(parsed.shards[parsed.shardOf(entry)] as string)];
    }
  }
  const interimIndex: WantedIndex['interimIndex'] = (nameOf) =>
    encodeIndex(new Map(parsed.metadata), weightMap(nameOf));
  const { name, hash, version } = file;
  return { ...knownFile({ name, hash, version }, bytes), interimIndex };
}
