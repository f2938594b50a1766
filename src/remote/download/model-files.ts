/** Finds a source's files of the model, and the files beside it. */

import { RemoteError } from '../../errors/errors.js';
import {
  type CheckpointIndex,
  checkIndexByteLength,
  DEFAULT_MAX_INDEX_BYTE_LENGTH,
  parseCheckpointIndex,
} from '../../file/shards/checkpoint-index.js';
import { urlPathObjection } from '../../file/shards/shard-paths.js';
import { readSmallFile } from '../../platform/io/small-files.js';
import { runAsync } from '../../work/work.js';
import { isOtherName, MAX_OTHER_BYTE_LENGTH } from '../../write/checkpoint/other-files.js';
import type { HttpFile, KnownFile } from '../http-file.js';
import type { RepositoryEntry } from '../hub-repository.js';
import { chooseAmong, namesAmong } from '../hub-source.js';
import { beginHash } from './file-hash.js';
import { isTooLongHere } from './local-names.js';
import { isAlreadyThere } from './partial-files.js';
import { readWhole } from './receive-whole.js';
import { isIndexName, type SourceFile, type SourceFiles, splitPath } from './source-files.js';
import type { WantedFile } from './wanted-file.js';

/** For a repository that is not a model. */
const ADVICE = '; `files` of download takes any files';

/** Finds the path of a file that an earlier download left. */
export type PlaceOf = (file: Pick<WantedFile, 'name'>) => string;

/** The file of the model, or its index. */
export interface ModelFile {
  readonly file: SourceFile;
  /** Null when `file` is not an index. */
  readonly index: {
    readonly bytes: Uint8Array<ArrayBuffer>;
    readonly parsed: CheckpointIndex;
  } | null;
}

/**
 * Finds the file that the source names, or chooses in a folder, and reads it when it is an index.
 *
 * @throws As `SourceFiles.find`; FormatError for a bad index; SafetensorsError
 *   `SAFETENSORS_CHECKPOINT_NOT_FOUND`, `SAFETENSORS_DIFFUSERS_PIPELINE`
 */
export async function findModel(
  source: SourceFiles,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<ModelFile> {
  const folder = source.hub?.prefix.slice(0, -1) ?? '';
  const names = namesAmong(source.entries ?? [], folder);
  const name = source.name ?? chooseAmong(names, source.path, source.variant, { advice: ADVICE });
  return await readModel(source, name, placeOf, signal);
}

/**
 * Finds a file of a model by its path, and reads it when it is an index.
 *
 * @throws As `SourceFiles.find`; FormatError for a bad index
 */
export async function readModel(
  source: SourceFiles,
  name: string,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<ModelFile> {
  const file = await source.find(name, signal);
  if (!isIndexName(splitPath(name)[1])) return { file, index: null };
  const bytes = await indexBytesOf(file, placeOf(file), signal);
  return { file, index: { bytes, parsed: parseCheckpointIndex(bytes, { path: file.file.path }) } };
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
