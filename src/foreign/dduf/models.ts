/** The models of a DDUF archive: which files they have, and how these are opened at their places within it. */

import { FileChangedError, quoteNames, SafetensorsError } from '../../errors/errors.js';
import type { CheckpointFiles } from '../../file/checkpoint/find-files.js';
import { LazyShards } from '../../file/checkpoint/lazy-shards.js';
import { SafetensorsFile } from '../../file/file.js';
import { MAX_CONFIG_BYTE_LENGTH } from '../../file/hub/parameter-count.js';
import type { ParseOptions } from '../../file/open.js';
import { readFileHeader } from '../../file/read-header.js';
import { hasZstdFrames } from '../../file/require-model.js';
import {
  type CheckpointIndex,
  checkIndexByteLength,
  type ParseIndexOptions,
  parseCheckpointIndex,
} from '../../file/shards/checkpoint-index.js';
import { isIndexPath } from '../../file/shards/file-choice.js';
import { requireModel } from '../../file/shards/incomplete-models.js';
import { chooseModels } from '../../file/shards/pipeline-files.js';
import type { FileBeside } from '../../file/source/facts.js';
import { closeFile } from '../../platform/io/file-calls.js';
import {
  closeOwn,
  type OpenedFile,
  openRegularFile,
  readBytesOf,
  readFully,
} from '../../platform/io/opened-file.js';
import type { FileBackedStorage } from '../../platform/storage/file-backed.js';
import { openStorage, type StorageOptions } from '../../platform/storage/open.js';
import { runSync, type Work } from '../../work/work.js';
import { fileKindOf, otherKind } from '../file-kind.js';
import { fileReader, readStart } from '../open-file.js';
import type { ArchiveEntry, ByteReader } from '../zip/archive.js';
import { type DdufArchive, readDduf } from './archive.js';

/** How the files of weights are opened. */
interface PartOptions extends ParseOptions, StorageOptions {}

/** An archive, as it was when its directory was read. */
interface ReadArchive extends DdufArchive {
  readonly path: string;
  readonly byteLength: number;
  readonly mtimeNs: bigint;
  /** Its first bytes. */
  readonly start: Uint8Array;
}

/** An archive, and what its models are. */
export interface ArchivedModels extends ReadArchive {
  /** Files or indexes of the models, by their folders. */
  readonly chosen: ReadonlyMap<string, string>;
}

/** What was read of an archive. An open pipeline needs the archive alone, for as long as it is open. */
export interface ReadModels {
  readonly archive: ArchivedModels;
  /** The bytes of the indexes, by their names. */
  readonly indexes: ReadonlyMap<string, Uint8Array>;
}

/**
 * Reads the directory of an archive, and its indexes of weights. Leaves no file open.
 *
 * @throws As `openDduf`, but for the files of weights
 */
export function readModels(
  path: string,
  variant: string | undefined,
  maxIndexByteLength?: number,
): ReadModels {
  const file = runSync(openRegularFile(path, path));
  try {
    const reader = fileReader(file);
    const start = readStart(reader);
    const context = { path };
    if (fileKindOf(start) !== 'zip') throw otherKind(start, 'a DDUF archive', context);
    const found = readDduf(reader, context, undefined);
    const { byteLength, mtimeNs } = file;
    const chosen = chooseModels(found.entries.values(), variant, path);
    const indexes = new Map<string, Uint8Array>();
    for (const name of chosen.values()) {
      const entry = found.entries.get(name) as ArchiveEntry;
      if (isIndexPath(name)) {
        indexes.set(name, indexBytes(reader, entry, { ...context, maxIndexByteLength }));
      }
    }
    return { archive: { ...found, path, byteLength, mtimeNs, start, chosen }, indexes };
  } finally {
    runSync(closeFile(file.fd));
  }
}

function indexBytes(
  reader: ByteReader,
  { begin, end }: ArchiveEntry,
  options: ParseIndexOptions,
): Uint8Array {
  checkIndexByteLength(end - begin, options);
  return reader.read(begin, end);
}

/**
 * Opens a model, with all of its files, by its file, or by its index, whose bytes are `index`. The caller closes them.
 *
 * @throws FormatError for a bad index or file; SafetensorsError `SAFETENSORS_MISSING_SHARDS`; FileChangedError
 */
export function openModel(
  archive: ArchivedModels,
  name: string,
  index: Uint8Array | undefined,
  options: PartOptions,
): LazyShards {
  const files = filesOf(archive, name, index);
  const folder = folderOf(name);
  const opened: SafetensorsFile[] = [];
  try {
    for (const shard of files.shards) {
      const entry = archive.entries.get(folder + shard.name) as ArchiveEntry;
      opened.push(runSync(openPart(archive, entry, files.index !== null, options)));
    }
    return LazyShards.ofOpen(files, opened.entries());
  } catch (error) {
    for (const file of opened) file.close();
    throw error;
  }
}

/** The folder of a file, with a slash at its end. */
function folderOf(name: string): string {
  return name.slice(0, name.lastIndexOf('/') + 1);
}

/** The files of a model, all of which must be in the archive. */
function filesOf(
  archive: ArchivedModels,
  name: string,
  bytes: Uint8Array | undefined,
): CheckpointFiles {
  const { path, entries } = archive;
  const folder = folderOf(name);
  const place = `${path}/${name}`;
  const index = bytes === undefined ? null : parseIndex(bytes, place);
  const names = index?.shards ?? [name.slice(folder.length)];
  const missing = names.filter((shard) => !entries.has(folder + shard));
  if (missing.length > 0) {
    const message = `expected ${names.length} shards, found ${missing.length} of them missing: ${quoteNames(missing)}`;
    throw new SafetensorsError('SAFETENSORS_MISSING_SHARDS', message, { path: place });
  }
  const shards = names.map((shard) => ({ name: shard, path: `${path}/${folder}${shard}` }));
  const readBeside = (name: string): Work<FileBeside | undefined> =>
    readSmall(archive, folder + name);
  return { path: place, index, shards, passedOver: [], readBeside };
}

/** Parses an index whose length was checked before it was read. */
function parseIndex(bytes: Uint8Array, path: string): CheckpointIndex {
  return parseCheckpointIndex(bytes, { path, maxIndexByteLength: bytes.length });
}

/** Reads a small file within the archive; undefined when there is none. */
function* readSmall(archive: ReadArchive, name: string): Work<FileBeside | undefined> {
  const entry = archive.entries.get(name);
  if (entry === undefined) return undefined;
  const file = yield* openSame(archive);
  try {
    const { begin, byteLength } = entry;
    const path = `${archive.path}/${name}`;
    const bytes = new Uint8Array(Math.min(byteLength, MAX_CONFIG_BYTE_LENGTH));
    yield* readFully(readBytesOf(file), bytes, begin, path);
    return { path, bytes, byteLength };
  } finally {
    yield* closeFile(file.fd);
  }
}

/** Opens a safetensors file within the archive. */
function* openPart(
  archive: ReadArchive,
  { name, begin, end }: ArchiveEntry,
  isIndexed: boolean,
  options: PartOptions,
): Work<SafetensorsFile> {
  const file = yield* openSame(archive);
  let storage: FileBackedStorage | undefined;
  try {
    const limits = {
      maxHeaderByteLength: options.maxHeaderByteLength,
      path: `${archive.path}/${name}`,
    };
    const { header } = yield* readFileHeader(file, limits, { begin, end });
    const isCompressed = yield* hasZstdFrames({ header, file, begin });
    const origin = { name: name.slice(folderOf(name).length), isIndexed, isCompressed };
    requireModel(header, origin, limits.path);
    storage = yield* openStorage(file, archive.start, options);
    // The last place for an abort.
    yield;
    return SafetensorsFile.of(storage, header, begin);
  } catch (error) {
    if (storage === undefined) yield* closeOwn(file);
    else storage.close(false);
    throw error;
  }
}

/** Opens the archive to read all of its bytes by position. The caller closes it. Throws FileChangedError. */
export function* openWhole(archive: ReadArchive): Work<FileBackedStorage> {
  const file = yield* openSame(archive);
  try {
    return yield* openStorage(file, archive.start, { storage: 'read' });
  } catch (error) {
    yield* closeOwn(file);
    throw error;
  }
}

/** Opens the archive, which must still be the one whose directory was read. Throws FileChangedError. */
function* openSame({ path, byteLength, mtimeNs }: ReadArchive): Work<OpenedFile> {
  const file = yield* openRegularFile(path, path);
  if (file.byteLength === byteLength && file.mtimeNs === mtimeNs) return file;
  yield* closeOwn(file);
  const message = 'the archive changed after its directory was read; open it again';
  throw new FileChangedError(message, { path });
}
