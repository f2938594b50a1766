/** Opens DDUF archives: the models of a pipeline, each mapped from its place within the archive. */

import { type OptionNames, requireBoolean, requireOptions } from '../../errors/arguments.js';
import {
  type ErrorContext,
  FileChangedError,
  quoteNames,
  SafetensorsError,
} from '../../errors/errors.js';
import { Checkpoint } from '../../file/checkpoint/checkpoint.js';
import type { CheckpointFiles } from '../../file/checkpoint/find-files.js';
import { LazyShards } from '../../file/checkpoint/lazy-shards.js';
import { SafetensorsFile } from '../../file/file.js';
import type { ParseOptions } from '../../file/open.js';
import { readFileHeader } from '../../file/read-header.js';
import { checkIndexByteLength, parseCheckpointIndex } from '../../file/shards/checkpoint-index.js';
import { isIndexPath, requireVariant } from '../../file/shards/file-choice.js';
import { chooseModels } from '../../file/shards/pipeline-files.js';
import { openModels, Pipeline, type PipelineOptions } from '../../file/source/pipeline.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import { closeFile } from '../../platform/io/file-calls.js';
import { closeOwn, openRegularFile } from '../../platform/io/opened-file.js';
import { pathText } from '../../platform/io/paths.js';
import { runSync, type Steps } from '../../platform/io/steps.js';
import type { FileBackedStorage } from '../../platform/storage/file-backed.js';
import {
  openStorage,
  requireStorageOptions,
  STORAGE_OPTIONS,
  type StorageOptions,
} from '../../platform/storage/open.js';
import { fileKindOf, otherKind } from '../file-kind.js';
import { fileReader, readStart } from '../open-file.js';
import type { ArchiveEntry, ByteReader } from '../zip/archive.js';
import { type DdufArchive, readDduf } from './archive.js';

/** Options of {@link openDduf}. */
export interface OpenDdufOptions extends ParseOptions, StorageOptions, PipelineOptions {
  /** Opens the files of a variant, such as `fp16`, in folders that have them. */
  readonly variant?: string | undefined;
}

const OPEN_DDUF_OPTIONS: OptionNames<OpenDdufOptions> = {
  ...STORAGE_OPTIONS,
  maxHeaderByteLength: true,
  toVerify: true,
  variant: true,
};

/** An archive, as it was when its directory was read. */
interface OpenedArchive extends DdufArchive {
  readonly path: string;
  readonly byteLength: number;
  readonly mtimeNs: bigint;
  /** Its first bytes. */
  readonly start: Uint8Array;
}

/**
 * Opens a DDUF archive, which is one file with a whole pipeline of diffusers: every model is a checkpoint over its bytes
 * within the archive. Nothing is unpacked; each file of weights is mapped by itself, and takes a descriptor.
 * `path` of a model is that of the archive and the name in it, joined by `/`, which is no file.
 *
 * The archive must be readable in one way only, as `openTorchCheckpoint` demands it, and keep the rules of DDUF: entries
 * without compression, at most one folder deep, `model_index.json`, and a configuration in every folder that it names.
 *
 * @throws FormatError `SAFETENSORS_INVALID_ARCHIVE`, `SAFETENSORS_INCOMPLETE_FILE`, `SAFETENSORS_INVALID_PIPELINE`,
 *   `SAFETENSORS_FOREIGN_FORMAT` for another file; as `safeOpen` for the files of a model
 * @throws SafetensorsError `SAFETENSORS_MISSING_SHARDS`; `SAFETENSORS_CHECKPOINT_NOT_FOUND` for a variant that no folder
 *   has
 * @throws Error Node's own `ENOENT`, `EACCES` and the like
 *
 * @example
 * ```ts
 * const pipeline = openDduf('pipeline.dduf');
 * console.log(pipeline.models.get('unet')?.getTensor('norm.weight').data); // → Float32Array(4) [ 0, 0, 0, 0 ]
 * pipeline.close();
 * ```
 */
export function openDduf(path: string | URL, options: OpenDdufOptions = {}): Pipeline<Checkpoint> {
  requireOptions(options, OPEN_DDUF_OPTIONS);
  requireStorageOptions(options);
  const { variant, toVerify = false } = options;
  requireVariant(variant);
  requireBoolean('toVerify', toVerify);
  const label = pathText('path', path);
  requireLittleEndianHost(label);
  const { archive, indexes, chosen } = readArchiveAt(label, variant);
  const opened = openModels(chosen, toVerify, (name) =>
    openModel(archive, name, indexes.get(name), options),
  );
  return Pipeline.of({ path: label, missing: archive.missing, ...opened });
}

/** An archive, its models' files or indexes by their folders, and the bytes of these indexes. */
interface FoundModels {
  readonly archive: OpenedArchive;
  readonly chosen: ReadonlyMap<string, string>;
  readonly indexes: ReadonlyMap<string, Uint8Array>;
}

/** Reads the directory of an archive, and its indexes of weights. */
function readArchiveAt(path: string, variant: string | undefined): FoundModels {
  const file = runSync(openRegularFile(path, path));
  try {
    const reader = fileReader(file);
    const start = readStart(reader);
    const context = { path };
    if (fileKindOf(start) !== 'zip') throw otherKind(start, 'a DDUF archive', context);
    const found = readDduf(reader, context, undefined);
    const { byteLength, mtimeNs } = file;
    const archive = { ...found, path, byteLength, mtimeNs, start };
    const chosen = chooseModels(found.entries.values(), variant, path);
    const indexes = new Map<string, Uint8Array>();
    for (const name of chosen.values()) {
      const entry = found.entries.get(name) as ArchiveEntry;
      if (isIndexPath(name)) indexes.set(name, indexBytes(reader, entry, context));
    }
    return { archive, chosen, indexes };
  } finally {
    runSync(closeFile(file.fd));
  }
}

function indexBytes(
  reader: ByteReader,
  { begin, end }: ArchiveEntry,
  context: ErrorContext,
): Uint8Array {
  checkIndexByteLength(end - begin, context);
  return reader.read(begin, end);
}

/** Opens a model, with all of its files, by its file or by its index, whose bytes are given. */
function openModel(
  archive: OpenedArchive,
  name: string,
  index: Uint8Array | undefined,
  options: OpenDdufOptions,
): Checkpoint {
  const files = filesOf(archive, name, index);
  const folder = name.slice(0, name.lastIndexOf('/') + 1);
  const opened: SafetensorsFile[] = [];
  try {
    for (const shard of files.shards) {
      const entry = archive.entries.get(folder + shard.name) as ArchiveEntry;
      opened.push(runSync(openPart(archive, entry, options)));
    }
    return Checkpoint.of(LazyShards.ofOpen(files, opened.entries()));
  } catch (error) {
    for (const file of opened) file.close();
    throw error;
  }
}

/** The files of a model, all of which must be in the archive. */
function filesOf(
  { path, entries }: OpenedArchive,
  name: string,
  bytes: Uint8Array | undefined,
): CheckpointFiles {
  const begin = name.lastIndexOf('/') + 1;
  const folder = name.slice(0, begin);
  const place = `${path}/${name}`;
  const index = bytes === undefined ? null : parseCheckpointIndex(bytes, { path: place });
  const names = index?.shards ?? [name.slice(begin)];
  const missing = names.filter((shard) => !entries.has(folder + shard));
  if (missing.length > 0) {
    const message = `expected ${names.length} shards, found ${missing.length} of them missing: ${quoteNames(missing)}`;
    throw new SafetensorsError('SAFETENSORS_MISSING_SHARDS', message, { path: place });
  }
  const shards = names.map((shard) => ({ name: shard, path: `${path}/${folder}${shard}` }));
  return { path: place, index, shards, passedOver: [] };
}

/** Opens a safetensors file within the archive, which must still be the one whose directory was read. */
function* openPart(
  { path, byteLength, mtimeNs, start }: OpenedArchive,
  { name, begin, end }: ArchiveEntry,
  options: OpenDdufOptions,
): Steps<SafetensorsFile> {
  const file = yield* openRegularFile(path, path);
  let storage: FileBackedStorage | undefined;
  try {
    if (file.byteLength !== byteLength || file.mtimeNs !== mtimeNs) {
      const message = 'the archive changed after its directory was read; open it again';
      throw new FileChangedError(message, { path });
    }
    const limits = {
      maxHeaderByteLength: options.maxHeaderByteLength,
      path: `${path}/${name}`,
    };
    const { header } = yield* readFileHeader(file, limits, { begin, end });
    storage = yield* openStorage(file, start, options);
    // The last place for an abort.
    yield;
    return SafetensorsFile.of(storage, header, begin);
  } catch (error) {
    if (storage === undefined) yield* closeOwn(file);
    else storage.close(false);
    throw error;
  }
}
