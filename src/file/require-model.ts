/** Rejects files that are not a model: parts of distributed checkpoints, and deltas. Reads siblings where needed. */

import { basename, dirname, join } from 'node:path';
import type { Header } from '../header/header.js';
import { closeFile, listFolder } from '../platform/io/file-calls.js';
import {
  type OpenedFile,
  openRegularFile,
  readBytesOf,
  readFully,
} from '../platform/io/opened-file.js';
import type { Work } from '../work/work.js';
import { readFileHeader } from './read-header.js';
import { readIndex } from './read-index.js';
import { indexesAmong } from './shards/file-choice.js';
import {
  comparedSiblings,
  type IncompleteModel,
  incompleteModel,
  incompleteModelError,
  isPartByName,
  isZstd,
  needsSiblingHeaders,
  needsSiblings,
  partOfRank,
  partWithSibling,
  requireModel,
  siblingsAmong,
  ZSTD_MAGIC_BYTE_LENGTH,
  zstdPositions,
} from './shards/incomplete-models.js';
import { isOfFile } from './shards/verification-error.js';

/** A file whose header was read. */
export interface FileWithHeader {
  readonly header: Header;
  readonly file: OpenedFile;
  /** Where the file begins within an archive. */
  readonly begin?: number | undefined;
  /** Undefined for a descriptor of the caller's. */
  readonly path: string | undefined;
  /** The file in errors; the path by default. */
  readonly label?: string | undefined;
  /** Whether an index lists the file. */
  readonly isIndexed?: boolean | undefined;
}

/**
 * Throws for a file that is not a model. Reads siblings only of a file whose metadata or name is that of a rank's file.
 *
 * @throws FormatError `SAFETENSORS_DISTRIBUTED_PART`, `SAFETENSORS_DELTA`
 */
export function* requireModelFile(opened: FileWithHeader): Work<void> {
  const { header, path, label = path, isIndexed } = opened;
  const isCompressed = yield* hasZstdFrames(opened);
  if (path === undefined || isIndexed === true) {
    return requireModel(header, { isIndexed, isCompressed }, label);
  }
  const name = basename(path);
  const origin = { name, isCompressed };
  let found = incompleteModel(header, origin);
  if (isPartByName(header, origin) && (yield* isInIndex(path, name))) found = null;
  else if (needsSiblings(header, name)) found ??= yield* partAmongSiblings(header, path, name);
  if (found !== null) throw incompleteModelError(found, 'file', label);
}

/** Whether the bytes are those of a delta, for a header that may be one's. */
export function* hasZstdFrames({
  header,
  file,
  begin = 0,
}: Pick<FileWithHeader, 'header' | 'file' | 'begin'>): Work<boolean> {
  const positions = zstdPositions(header);
  for (const position of positions) {
    const bytes = new Uint8Array(ZSTD_MAGIC_BYTE_LENGTH);
    const at = begin + header.dataStart + position;
    yield* readFully(readBytesOf(file), bytes, at, file.path);
    if (!isZstd(bytes)) return false;
  }
  return positions.length > 0;
}

/** Whether an index in the same folder lists the file. */
function* isInIndex(path: string, name: string): Work<boolean> {
  const folder = dirname(path);
  for (const index of indexesAmong(yield* namesIn(folder))) {
    const read = readIndex(join(folder, index), {});
    if ((yield* unlessBad(read))?.shards.includes(name) === true) return true;
  }
  return false;
}

/** Compares the file with its siblings: the parts of the first rank begin at 0, as whole tensors do. */
function* partAmongSiblings(
  header: Header,
  path: string,
  name: string,
): Work<IncompleteModel | null> {
  const folder = dirname(path);
  const siblings = siblingsAmong(yield* namesIn(folder), name);
  const byName = partOfRank(name, siblings);
  if (byName === null && !needsSiblingHeaders(header, name, siblings)) return null;
  if (yield* isInIndex(path, name)) return null;
  if (byName !== null) return byName;
  for (const sibling of comparedSiblings(siblings)) {
    const other = yield* unlessBad(readHeader(join(folder, sibling)));
    const found =
      other === undefined ? null : partWithSibling(header, name, other, sibling, siblings);
    if (found !== null) return found;
  }
  return null;
}

function* namesIn(folder: string): Work<readonly string[]> {
  const entries = (yield* unlessBad(listFolder(folder))) ?? [];
  return entries.flatMap(({ name, isFolder }) => (isFolder ? [] : name));
}

function* readHeader(path: string): Work<Header> {
  const file = yield* openRegularFile(path, path);
  try {
    return (yield* readFileHeader(file)).header;
  } finally {
    yield* closeFile(file.fd);
  }
}

/** Undefined for siblings that cannot be read: only the opened file has to be valid. */
function* unlessBad<Result>(read: Work<Result>): Work<Result | undefined> {
  try {
    return yield* read;
  } catch (error) {
    if (!isOfFile(error)) throw error;
    return undefined;
  }
}
