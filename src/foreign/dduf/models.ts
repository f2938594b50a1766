/** The models of a DDUF archive: which files they have, and how these are opened at their places within it. */

import { FileChangedError } from '../../errors/errors.js';
import type { CheckpointFiles } from '../../file/checkpoint/find-files.js';
import { LazyShards } from '../../file/checkpoint/lazy-shards.js';
import { SafetensorsFile } from '../../file/file.js';
import type { ParseOptions } from '../../file/open.js';
import { readFileHeader } from '../../file/read-header.js';
import { requireModelFile } from '../../file/require-model.js';
import {
  type CheckpointIndex,
  checkIndexByteLength,
  type ParseIndexOptions,
  parseCheckpointIndex,
} from '../../file/shards/checkpoint-index.js';
import { indexesAmong, isOfVariant } from '../../file/shards/file-choice.js';
import { maxSiblingByteLength } from '../../file/shards/file-names.js';
import { impliedIndex } from '../../file/shards/implied-index.js';
import { isChosen } from '../../file/shards/model-choice.js';
import {
  type Component,
  chooseComponent,
  componentsAmong,
  filesByFolder,
} from '../../file/shards/pipeline-files.js';
import type { SiblingFile } from '../../file/source/tensor-info.js';
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
  readonly models: readonly Component[];
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
 * @throws As `openPipeline`, but for the files of weights
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
    const byFolder = filesByFolder(found.entries.values());
    const models = componentsAmong(byFolder, found.components, variant, path);
    const indexes = new Map<string, Uint8Array>();
    for (const { name: folder, files, variant: chosen } of models) {
      for (const name of indexesAmong(files).filter((one) => isOfVariant(one, chosen))) {
        const entry = found.entries.get(`${folder}/${name}`) as ArchiveEntry;
        const limits = { path: `${path}/${folder}/${name}`, maxIndexByteLength };
        indexes.set(entry.name, indexBytes(reader, entry, limits));
      }
    }
    return { archive: { ...found, path, byteLength, mtimeNs, start, models }, indexes };
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
 * Opens a model, with all of its files. `indexes` are the bytes of indexes, by their names. The caller closes them.
 *
 * @throws FormatError for a bad index or file; SafetensorsError as `chooseModel`; FileChangedError
 */
export function openModel(
  archive: ArchivedModels,
  model: Component,
  indexes: ReadonlyMap<string, Uint8Array>,
  options: PartOptions,
): LazyShards {
  const found = filesOf(archive, model, indexes);
  const isIndexed = found.index !== null;
  const opened: SafetensorsFile[] = [];
  try {
    for (const { path } of found.shards) {
      const entry = archive.entries.get(path.slice(archive.path.length + 1)) as ArchiveEntry;
      opened.push(runSync(openPart(archive, entry, isIndexed, options)));
    }
    if (found.isIndexMissing !== true) return LazyShards.ofOpen(found, opened.entries());
    const { files, shards } = indexedByHeaders(found, opened);
    return LazyShards.ofOpen(files, shards.entries());
  } catch (error) {
    for (const file of opened) file.close();
    throw error;
  }
}

/** The files of a model, all of which must be in the archive. */
function filesOf(
  archive: ArchivedModels,
  model: Component,
  indexes: ReadonlyMap<string, Uint8Array>,
): CheckpointFiles {
  const { path, entries } = archive;
  const folder = `${model.name}/`;
  const place = `${path}/${folder}`;
  const parsed = new Map<string, CheckpointIndex>();
  const decision = chooseComponent(model);
  let next = decision.next();
  while (next.done !== true) {
    const name = next.value;
    const index = parseIndex(indexes.get(folder + name) as Uint8Array, place + name);
    parsed.set(name, index);
    const missing = index.shards.filter((shard) => !entries.has(folder + shard));
    next = decision.next({ shards: index.shards, missing });
  }
  const chosen = next.value;
  if (!isChosen(chosen)) {
    throw chosen.errorAt((name) => (name === '' ? place.slice(0, -1) : place + name));
  }
  return {
    path: place + chosen.name,
    index: parsed.get(chosen.name) ?? null,
    isIndexMissing: chosen.kind === 'shards',
    shards: Array.from(chosen.shards, ([name, file]) => ({ name, path: place + file })),
    ignoredFiles: chosen.ignoredFiles,
    problems: chosen.problems,
    readSibling: (name) => readSmall(archive, folder + name),
  };
}

/** Files with the index that they lack, by the headers of all of them. Closes shards without tensors. */
function indexedByHeaders(
  files: CheckpointFiles,
  opened: readonly SafetensorsFile[],
): { readonly files: CheckpointFiles; readonly shards: readonly SafetensorsFile[] } {
  const named = files.shards.map(({ name }, shard) => {
    return { name, header: SafetensorsFile.headerOf(opened[shard] as SafetensorsFile) };
  });
  const index = runSync(impliedIndex(named, files.path));
  const isListed = (shard: number): boolean => index.shards.includes(named[shard]?.name as string);
  const shards = opened.filter((_, shard) => isListed(shard));
  for (const [shard, file] of opened.entries()) if (!isListed(shard)) file.close();
  const listed = files.shards.filter((_, shard) => isListed(shard));
  return { files: { ...files, index, shards: listed }, shards };
}

/** Parses an index whose length was checked before it was read. */
function parseIndex(bytes: Uint8Array, path: string): CheckpointIndex {
  return parseCheckpointIndex(bytes, { path, maxIndexByteLength: bytes.length });
}

/** Reads a small file within the archive; undefined when there is none. */
function* readSmall(archive: ReadArchive, name: string): Work<SiblingFile | undefined> {
  const entry = archive.entries.get(name);
  if (entry === undefined) return undefined;
  const file = yield* openSame(archive);
  try {
    const { begin, byteLength } = entry;
    const path = `${archive.path}/${name}`;
    const bytes = new Uint8Array(Math.min(byteLength, maxSiblingByteLength(name)));
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
    yield* requireModelFile({ header, file, path: limits.path, isIndexed, begin });
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
