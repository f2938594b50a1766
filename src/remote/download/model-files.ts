/** Finds a source's files of the model, and the files next to it. */

import { type Advice, adviceOf } from '../../errors/advice.js';
import { RemoteError, SafetensorsError } from '../../errors/errors.js';
import {
  type CheckpointIndex,
  checkIndexByteLength,
  DEFAULT_MAX_INDEX_BYTE_LENGTH,
  parseCheckpointIndex,
} from '../../file/shards/checkpoint-index.js';
import { PIPELINE_FILE } from '../../file/shards/file-names.js';
import {
  chooseModel,
  type ModelDecision,
  type NoModel,
  type PartialModel,
} from '../../file/shards/model-choice.js';
import { urlPathObjection } from '../../file/shards/shard-paths.js';
import { readSmallFile } from '../../platform/io/small-files.js';
import { runAsync } from '../../work/work.js';
import { isOtherName, MAX_OTHER_BYTE_LENGTH } from '../../write/checkpoint/sidecar-files.js';
import { driveDecision, listedIn } from '../choose-files.js';
import type { NoRemoteModel } from '../found-file.js';
import type { HttpFile, KnownFile } from '../http-file.js';
import type { RepositoryEntry } from '../hub-repository.js';
import { type Names, namesAmong } from '../hub-source.js';
import type { DownloadItem } from './download-item.js';
import { beginHash } from './file-hash.js';
import { isTooLongHere } from './local-names.js';
import { isAlreadyThere } from './partial-files.js';
import { readWhole } from './receive-whole.js';
import { isIndexName, type SourceFile, type SourceFiles, splitPath } from './source-files.js';

/** For a repository that is not a model. */
const TAKE_ANY: Advice = { option: 'files', text: '`files` of download takes any files' };

/** Finds the path of a file that an earlier download left. */
export type PlaceOf = (file: Pick<DownloadItem, 'name'>) => string;

/** The files of a model. */
export interface ModelFiles {
  /** The index, or else the first file. */
  readonly file: SourceFile;
  /** Null without an index. */
  readonly index: {
    readonly bytes: Uint8Array<ArrayBuffer>;
    readonly parsed: CheckpointIndex;
  } | null;
  /**
   * The files with tensors by the names that the index lists. Both differ where the index has another case or Unicode
   * normalization.
   */
  readonly shards: ReadonlyMap<string, string>;
}

/**
 * Finds the file that the source names, or chooses in a folder, and reads indexes.
 *
 * @throws As `SourceFiles.find`; FormatError for a bad index
 */
export async function findModel(
  source: SourceFiles,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<ModelFiles | NoRemoteModel> {
  if (source.name !== null) return await readModel(source, source.name, placeOf, signal);
  const folder = source.hub?.prefix.slice(0, -1) ?? '';
  const names = namesAmong(source.entries ?? [], folder);
  const { variant } = source;
  const decision = chooseModel(names, { variant });
  const files = listedIn(names.files);
  const found = await chosenModel(source, '', decision, files, placeOf, signal);
  return 'file' in found ? found : await noModelAt(source, names, found, signal);
}

/** A folder without a model. A pipeline without safetensors is one, too: its other files are copied. */
async function noModelAt(
  source: SourceFiles,
  names: Names,
  none: PartialModel | NoModel,
  signal: AbortSignal,
): Promise<NoRemoteModel> {
  const { path } = source;
  const listed = await source.noModel?.(names, none, signal);
  if (listed?.kind === 'pipeline') return listed;
  const { kind, error } = listed ?? { kind: none.kind, error: none.errorAt(() => path) };
  if (listed?.kind === 'none' && names.files.includes(PIPELINE_FILE)) {
    const message =
      'expected one checkpoint in the folder, found a Diffusers pipeline without safetensors files';
    const context = { path };
    return {
      kind: 'pipeline',
      error: new SafetensorsError('SAFETENSORS_DIFFUSERS_PIPELINE', message, context),
    };
  }
  const isEmpty = none.kind !== 'missing-shards' && none.isEmpty;
  return { kind, error: isEmpty ? withAdvice(error) : error };
}

/** Names the option that downloads repositories that are not a model. */
function withAdvice(error: SafetensorsError): SafetensorsError {
  const { code, message, path, foundFormat } = error;
  const text = path === undefined ? message : message.slice(`${path}: `.length);
  const advice = [...adviceOf(error), TAKE_ANY];
  return new SafetensorsError(code, `${text}; ${TAKE_ANY.text}`, { path, foundFormat, advice });
}

/**
 * Drives the decision about a folder, whose path below the source's is `prefix`.
 *
 * @throws As `SourceFiles.find`; FormatError for a bad index
 */
export async function chosenModel(
  source: SourceFiles,
  prefix: string,
  decision: ModelDecision,
  hasFile: (name: string) => boolean,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<ModelFiles | PartialModel | NoModel> {
  const read = new Map<string, ModelFiles>();
  const readIndex = async (name: string): Promise<CheckpointIndex> => {
    const found = await readModel(source, prefix + name, placeOf, signal);
    read.set(name, found);
    return (found.index as NonNullable<ModelFiles['index']>).parsed;
  };
  const chosen = await driveDecision(decision, readIndex, hasFile);
  if (!('model' in chosen)) return chosen;
  const { name, shards } = chosen.model;
  const indexed = read.get(name);
  if (indexed !== undefined) return { ...indexed, shards };
  const [first] = shards.keys();
  return { file: await source.find(`${prefix}${first}`, signal), index: null, shards };
}

/**
 * Finds a file of a model by its path, and reads it when it is an index.
 *
 * @throws As `SourceFiles.find`; FormatError for a bad index
 */
async function readModel(
  source: SourceFiles,
  name: string,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<ModelFiles> {
  const file = await source.find(name, signal);
  const [, last] = splitPath(name);
  if (!isIndexName(last)) return { file, index: null, shards: new Map([[last, last]]) };
  const bytes = await indexBytesOf(file, placeOf(file), signal);
  const parsed = parseCheckpointIndex(bytes, { path: file.file.path });
  const shards = new Map(parsed.shards.map((shard) => [shard, shard]));
  return { file, index: { bytes, parsed }, shards };
}

/** The files of a list, by default of the source's own folder, that are neither weights nor hidden. */
export async function otherFiles(
  source: SourceFiles,
  placeOf: PlaceOf,
  signal: AbortSignal,
  entries: readonly RepositoryEntry[] = source.entries ?? [],
): Promise<{ others: SourceFile[]; skipped: string[] }> {
  const others: SourceFile[] = [];
  const skipped: string[] = [];
  for (const { path, isFolder, byteLength } of entries) {
    const name = path.slice(source.hub?.prefix.length ?? 0);
    if (isFolder || !isOtherName(splitPath(name)[1])) continue;
    const isCarried =
      byteLength <= MAX_OTHER_BYTE_LENGTH &&
      urlPathObjection(name) === null &&
      !isTooLongHere(name, placeOf({ name }));
    if (isCarried) others.push(await source.find(name, signal));
    else skipped.push(name);
  }
  return { others, skipped };
}

/** All bytes of a file of known length, by a range that has them, or without one. */
async function allBytesOf(
  file: HttpFile,
  known: KnownFile,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  try {
    const { bytes, fileByteLength } = await file.readStart(DEFAULT_MAX_INDEX_BYTE_LENGTH, signal);
    checkIndexByteLength(fileByteLength, { path: file.path });
    return bytes;
  } catch (error) {
    if (!file.lacksRanges) throw error;
    checkIndexByteLength(known.byteLength, { path: file.path });
    return await readWhole(file, known, signal);
  }
}

/** The bytes of an index: of the file that an earlier download left, else of the source. */
export async function indexBytesOf(
  { file, hash, ...planned }: SourceFile,
  place: string,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  const isThere = hash !== null && (await isAlreadyThere(place, { ...planned, hash }, signal));
  if (isThere) return Uint8Array.from(await runAsync(readSmallFile(place), undefined));
  const { path } = file;
  const known = { byteLength: planned.byteLength, isHashed: hash !== null };
  const bytes = await allBytesOf(file, known, signal);
  const found = beginHash(hash, bytes.length).update(bytes).digest('hex');
  if (hash === null || found === hash) return bytes;
  const message = `expected the Hub's hash ${hash}, found ${found}`;
  throw new RemoteError('SAFETENSORS_BAD_RESPONSE', message, { path });
}
