/** Rejects files that are not a model: parts of distributed checkpoints, and deltas. The caller reads. */

import type { Header } from '../../header/header.js';
import { forEach } from '../../work/items.js';
import type { Work } from '../../work/work.js';
import { canonicalFileNames, indexesAmong } from './file-choice.js';
import { isOfFile } from './file-problems.js';
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
} from './incomplete-models.js';

/** The files next to a file. Errors of these files don't count. */
export interface Siblings {
  /** Their names; empty where they cannot be listed. */
  names(): Work<readonly string[]>;
  /** The shards that an index lists. */
  shardsOf(index: string): Work<readonly string[]>;
  headerOf(name: string): Work<Header>;
}

/** A file whose header was read. */
export interface FileToCheck {
  readonly header: Header;
  /** Its name, without directories; undefined without a name. */
  readonly name: string | undefined;
  /** The file in errors. */
  readonly path: string | undefined;
  /** Whether an index lists the file. */
  readonly isIndexed: boolean;
  /** Null where the file has none. */
  readonly siblings: Siblings | null;
  /** Fills `target` from `position` in the file on. */
  read(target: Uint8Array<ArrayBuffer>, position: number): Work<void>;
}

/**
 * Throws for a file that is not a model. Reads siblings only of a file whose metadata or name is that of a rank's file:
 * an index, and headers only where nothing else decides.
 *
 * @throws FormatError `SAFETENSORS_DISTRIBUTED_PART`, `SAFETENSORS_DELTA`
 */
export function* checkModel(file: FileToCheck): Work<void> {
  const { header, name, isIndexed, siblings, path } = file;
  const isCompressed = yield* hasZstdFrames(file);
  const origin = { name, isIndexed, isCompressed };
  let found = incompleteModel(header, origin);
  if (name !== undefined && siblings !== null && !isIndexed) {
    if (isPartByName(header, origin)) {
      if (yield* isInIndex(name, siblings)) found = null;
    } else if (needsSiblings(header, name)) {
      found ??= yield* partAmongSiblings(header, name, siblings);
    }
  }
  if (found !== null) throw incompleteModelError(found, 'file', path);
}

/** Whether the bytes are those of a delta; reads them only for a header that may be one's. */
function* hasZstdFrames({ header, read }: Pick<FileToCheck, 'header' | 'read'>): Work<boolean> {
  // The header was read in the same turn, and the digests of many tensors take long to decode.
  yield;
  const positions = zstdPositions(header);
  for (const position of positions) {
    const bytes = new Uint8Array(ZSTD_MAGIC_BYTE_LENGTH);
    yield* read(bytes, header.dataStart + position);
    if (!isZstd(bytes)) return false;
  }
  return positions.length > 0;
}

/** Whether an index in the same folder lists the file: one of a usual name where the folder cannot be listed. */
function* isInIndex(name: string, siblings: Siblings): Work<boolean> {
  const listed = yield* namesAmong(siblings);
  const names = listed.length > 0 ? listed : canonicalFileNames(undefined);
  for (const index of indexesAmong(names)) {
    const shards = yield* unlessBad(siblings.shardsOf(index));
    if (shards?.includes(name) === true) return true;
  }
  return false;
}

/** Compares the file with its siblings: the parts of the first rank begin at 0, as whole tensors do. */
function* partAmongSiblings(
  header: Header,
  name: string,
  siblings: Siblings,
): Work<IncompleteModel | null> {
  const names = siblingsAmong(yield* namesAmong(siblings), name);
  const byName = partOfRank(name, names);
  const isUndecided = names.length > 0 && needsSiblingHeaders(header, name, names);
  if (byName === null && !isUndecided) return null;
  if (yield* isInIndex(name, siblings)) return null;
  if (byName !== null) return byName;
  const parts = new Map<number, IncompleteModel>();
  yield* forEach(comparedSiblings(names), function* (sibling, number) {
    if (parts.size > 0) return;
    const other = yield* unlessBad(siblings.headerOf(sibling));
    if (other === undefined) return;
    const found = partWithSibling(header, name, other, sibling, names);
    if (found !== null) parts.set(number, found);
  });
  return parts.get(Math.min(...parts.keys())) ?? null;
}

function* namesAmong(siblings: Siblings): Work<readonly string[]> {
  return (yield* unlessBad(siblings.names())) ?? [];
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
