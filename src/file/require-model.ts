/** Rejects local files that are not a model. Reads siblings where needed. */

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
import { checkModel, type Siblings } from './shards/model-check.js';

/** A file whose header was read. */
interface FileWithHeader {
  readonly header: Header;
  readonly file: OpenedFile;
  /** Undefined for a descriptor of the caller's. */
  readonly path: string | undefined;
  /** The file in errors; the path by default. */
  readonly label?: string | undefined;
  /** Whether an index lists the file. */
  readonly isIndexed?: boolean | undefined;
  /** Where the file begins within an archive, which has no siblings that count. */
  readonly begin?: number | undefined;
}

/**
 * Throws for a file that is not a model.
 *
 * @throws As `checkModel`
 */
export function* requireModelFile(opened: FileWithHeader): Work<void> {
  const { header, file, path, label = path, isIndexed = false, begin } = opened;
  yield* checkModel({
    header,
    name: path === undefined ? undefined : basename(path),
    path: label,
    isIndexed,
    siblings: path === undefined || begin !== undefined ? null : siblingsIn(dirname(path)),
    read: (target, position) =>
      readFully(readBytesOf(file), target, (begin ?? 0) + position, file.path),
  });
}

function siblingsIn(folder: string): Siblings {
  return {
    *names() {
      const entries = yield* listFolder(folder);
      return entries.flatMap(({ name, isFolder }) => (isFolder ? [] : name));
    },
    *shardsOf(index) {
      return (yield* readIndex(join(folder, index), {})).shards;
    },
    headerOf: (name) => readHeader(join(folder, name)),
  };
}

function* readHeader(path: string): Work<Header> {
  const file = yield* openRegularFile(path, path);
  try {
    return (yield* readFileHeader(file)).header;
  } finally {
    yield* closeFile(file.fd);
  }
}
