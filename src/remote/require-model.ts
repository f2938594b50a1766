/** Rejects remote files that are not a model. Sends requests about siblings where needed. */

import { checkModel, type Siblings } from '../file/shards/model-check.js';
import type { Header } from '../header/header.js';
import { call, runAsync, type Work } from '../work/work.js';
import { readRemoteHeader } from './read-header.js';
import { readRemoteIndex } from './read-index.js';
import type { RemoteFile } from './remote-file.js';

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
 * Throws for a file that is not a model.
 *
 * @throws As `checkModel`
 */
export async function requireRemoteModel(
  { header, file, name, isIndexed }: RemoteFileWithHeader,
  folder: RemoteSiblings | null,
  signal: AbortSignal,
): Promise<void> {
  const check = checkModel({
    header,
    name,
    path: file.path,
    isIndexed,
    siblings: folder === null ? null : siblingsIn(folder, signal),
    read: (target, position) => requested(() => file.readInto(target, position, { signal })),
  });
  await runAsync(check, signal);
}

function siblingsIn(folder: RemoteSiblings, signal: AbortSignal): Siblings {
  return {
    names: () => requested(async () => (await folder.names?.(signal)) ?? []),
    shardsOf: (index) =>
      requested(async () => {
        const file = await folder.file(index, signal);
        return (await readRemoteIndex(file, false, signal)).shards;
      }),
    headerOf: (name) =>
      requested(async () => readRemoteHeader(await folder.file(name, signal), undefined, signal)),
  };
}

/** Work that has to wait for the network. */
function requested<Result>(run: () => Promise<Result>): Work<Result> {
  return call({ async: run });
}
