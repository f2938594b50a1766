/** Which whole files are downloaded, byte for byte: the weights, their index, and what lies beside them. */

import { readFile } from 'node:fs/promises';
import { isOtherName, MAX_OTHER_BYTE_LENGTH } from '../checkpoint/write/other-files.js';
import { RemoteError } from '../errors/errors.js';
import { chooseAmong, namesAmong } from '../remote/hub-source.js';
import {
  type CheckpointIndex,
  checkIndexByteLength,
  DEFAULT_MAX_INDEX_BYTE_LENGTH,
  parseCheckpointIndex,
} from '../shards/checkpoint-index.js';
import { encodeIndex } from '../shards/checkpoint-index-writer.js';
import { urlPathObjection } from '../shards/shard-paths.js';
import { beginHash } from './file-hash.js';
import { isAlreadyThere } from './partial-files.js';
import type { DownloadPlan, PlannedFile, PlannedIndex } from './planned-file.js';
import { isIndexName, type SourceFile, type SourceFiles } from './source-files.js';

/** Where a file of a plan is, if it was downloaded before. */
export type PlaceOf = (file: PlannedFile) => string;

/**
 * Plans the download of a file, of an index and its shards, or of the model in a folder with the files
 * beside it.
 *
 * @throws As `SourceFiles.find`; FormatError for a bad index; SafetensorsError
 *   `SAFETENSORS_CHECKPOINT_NOT_FOUND`, `SAFETENSORS_DIFFUSERS_PIPELINE`
 */
export async function planWhole(
  source: SourceFiles,
  placeOf: PlaceOf,
  signal: AbortSignal,
): Promise<DownloadPlan> {
  const folder = source.hub?.prefix.slice(0, -1) ?? '';
  const names = namesAmong(source.entries ?? [], folder);
  const name = source.name ?? chooseAmong(names, source.path);
  const chosen = await source.find(name, signal);
  const commit = source.hub?.commit ?? null;
  const { others, skipped } = await otherFiles(source, signal);
  if (!isIndexName(name)) return { commit, weights: [chosen], others, index: null, skipped };
  const bytes = await readIndex(chosen, placeOf(chosen), signal);
  const { index, parsed } = indexOf(chosen, bytes);
  const weights: SourceFile[] = [];
  for (const shard of parsed.shards) weights.push(await source.find(shard, signal));
  return { commit, weights, others, index, skipped };
}

/** The files of a list that are neither weights nor hidden. */
async function otherFiles(
  source: SourceFiles,
  signal: AbortSignal,
): Promise<{ others: SourceFile[]; skipped: string[] }> {
  const others: SourceFile[] = [];
  const skipped: string[] = [];
  for (const { path, isFolder, byteLength } of source.entries ?? []) {
    const name = path.slice(path.lastIndexOf('/') + 1);
    if (isFolder || !isOtherName(name)) continue;
    const isCarried = byteLength <= MAX_OTHER_BYTE_LENGTH && urlPathObjection(name) === null;
    if (isCarried) others.push(await source.find(name, signal));
    else skipped.push(name);
  }
  return { others, skipped };
}

/** The bytes of an index: of the file that an earlier download left, else of the source. */
async function readIndex(
  { file, hash, ...planned }: SourceFile,
  place: string,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  const isThere = hash !== null && (await isAlreadyThere(place, { ...planned, hash }, signal));
  if (isThere) return Uint8Array.from(await readFile(place));
  const { path } = file;
  const { bytes, fileByteLength } = await file.readStart(DEFAULT_MAX_INDEX_BYTE_LENGTH, signal);
  checkIndexByteLength(fileByteLength, { path });
  const found = beginHash(hash, bytes.length).update(bytes).digest('hex');
  if (hash === null || found === hash) return bytes;
  const message = `expected a file with the hash ${hash}, as the Hub says, found ${found}`;
  throw new RemoteError('SAFETENSORS_BAD_RESPONSE', message, { path });
}

function indexOf(
  file: SourceFile,
  bytes: Uint8Array<ArrayBuffer>,
): { index: PlannedIndex; parsed: CheckpointIndex } {
  const parsed = parseCheckpointIndex(bytes, { path: file.file.path });
  function* weightMap(nameOf: (name: string) => string): Generator<[string, string], void, void> {
    for (let entry = 0; entry < parsed.size; entry++) {
      yield [parsed.name(entry), nameOf(parsed.shards[parsed.shardOf(entry)] as string)];
    }
  }
  const interimIndex: PlannedIndex['interimIndex'] = (nameOf) =>
    encodeIndex(new Map(parsed.metadata), weightMap(nameOf));
  const { name, hash, version } = file;
  const segments = [{ file: null, bytes }];
  const index = { name, byteLength: bytes.length, segments, hash, version, bytes, interimIndex };
  return { index, parsed };
}
