/** Rejects remote files that are not a model: parts of distributed checkpoints, and deltas. */

import { indexesAmong, usualFileNames } from '../file/shards/file-choice.js';
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
  siblingsAmong,
  ZSTD_MAGIC_BYTE_LENGTH,
  zstdPositions,
} from '../file/shards/incomplete-models.js';
import { isOfFile } from '../file/shards/verification-error.js';
import type { Header } from '../header/header.js';
import { ofEach } from '../work/scope.js';
import { readRemoteHeader } from './read-header.js';
import { readRemoteIndex } from './read-index.js';
import type { RemoteFile } from './remote-file.js';

/** Requests for siblings at a time. */
const SIBLINGS_AT_ONCE = 8;

/** The files in the folder of a file. */
export interface RemoteSiblings {
  file(name: string, signal: AbortSignal): RemoteFile | Promise<RemoteFile>;
  /** The names of the files; missing where they cannot be listed. */
  names?(signal: AbortSignal): Promise<readonly string[]>;
}

/** A remote file whose header was read. */
interface RemoteFileWithHeader {
  readonly header: Header;
  readonly file: RemoteFile;
  /** Its name, without directories. */
  readonly name: string;
  /** Whether an index lists the file. */
  readonly isIndexed: boolean;
}

/**
 * Throws for a file that is not a model. Fetches an index, or headers of siblings, only for a file whose metadata or
 * name is that of a rank's file; headers only where the folder can be listed.
 *
 * @throws FormatError `SAFETENSORS_DISTRIBUTED_PART`, `SAFETENSORS_DELTA`
 */
export async function requireRemoteModel(
  opened: RemoteFileWithHeader,
  folder: RemoteSiblings | null,
  signal: AbortSignal,
): Promise<void> {
  const { header, file, name, isIndexed } = opened;
  const isCompressed = await hasZstdFrames(header, file, signal);
  const origin = { name, isIndexed, isCompressed };
  let found = incompleteModel(header, origin);
  if (folder !== null && !isIndexed) {
    if (isPartByName(header, origin)) {
      if (await isInIndex(name, folder, signal)) found = null;
    } else if (needsSiblings(header, name)) {
      found ??= await partAmongSiblings(header, name, folder, signal);
    }
  }
  if (found !== null) throw incompleteModelError(found, 'file', file.path);
}

/** Whether the bytes are those of a delta; requests them only for a header that may be one's. */
async function hasZstdFrames(
  header: Header,
  file: RemoteFile,
  signal: AbortSignal,
): Promise<boolean> {
  const positions = zstdPositions(header);
  for (const position of positions) {
    const bytes = new Uint8Array(ZSTD_MAGIC_BYTE_LENGTH);
    await file.readInto(bytes, header.dataStart + position, { signal });
    if (!isZstd(bytes)) return false;
  }
  return positions.length > 0;
}

/** Whether an index in the same folder lists the file: one of a usual name where the folder cannot be listed. */
async function isInIndex(
  name: string,
  folder: RemoteSiblings,
  signal: AbortSignal,
): Promise<boolean> {
  const listed = await namesIn(folder, signal);
  const names = listed.length > 0 ? listed : usualFileNames(undefined);
  for (const index of indexesAmong(names)) {
    const read = async (): Promise<boolean> => {
      const { shards } = await readRemoteIndex(await folder.file(index, signal), false, signal);
      return shards.includes(name);
    };
    if ((await read().catch(unlessBad)) === true) return true;
  }
  return false;
}

/** As for local files: names first, then the index, and headers only where nothing else decides. */
async function partAmongSiblings(
  header: Header,
  name: string,
  folder: RemoteSiblings,
  signal: AbortSignal,
): Promise<IncompleteModel | null> {
  const siblings = siblingsAmong(await namesIn(folder, signal), name);
  const byName = partOfRank(name, siblings);
  if (byName === null && (siblings.length === 0 || !needsSiblingHeaders(header, name, siblings)))
    return null;
  if (await isInIndex(name, folder, signal)) return null;
  if (byName !== null) return byName;
  const compare = async (
    sibling: string,
    ends: AbortSignal,
  ): Promise<IncompleteModel | null | undefined> => {
    const read = async (): Promise<Header> =>
      readRemoteHeader(await folder.file(sibling, ends), undefined, ends);
    const other = await read().catch(unlessBad);
    return other && partWithSibling(header, name, other, sibling, siblings);
  };
  const found = await ofEach(comparedSiblings(siblings), SIBLINGS_AT_ONCE, compare, signal);
  return found.find((one) => one !== null && one !== undefined) ?? null;
}

/** The names of the files; empty where they cannot be listed. */
async function namesIn(folder: RemoteSiblings, signal: AbortSignal): Promise<readonly string[]> {
  return (await folder.names?.(signal).catch(unlessBad)) ?? [];
}

/** Undefined for files that cannot be read: only the opened file has to be valid. */
function unlessBad(error: unknown): undefined {
  if (!isOfFile(error)) throw error;
}
