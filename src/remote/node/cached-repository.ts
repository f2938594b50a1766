/** A repository in the Hub cache, read instead of sending requests to the Hub. */

import { join } from 'node:path';
import { FileChangedError, type SafetensorsError } from '../../errors/errors.js';
import { findInSnapshot, findSnapshot, notInCache, type Snapshot } from '../../file/cache/cache.js';
import { hubUri } from '../../file/hub/ids.js';
import {
  closeFile,
  exists,
  listFolder,
  NOTHING_THERE,
  realPath,
} from '../../platform/io/file-calls.js';
import {
  type OpenedFile,
  openRegularFile,
  readBytesOf,
  readFully,
} from '../../platform/io/opened-file.js';
import { hasCode } from '../../platform/io/system-errors.js';
import { runAsync, type Work } from '../../work/work.js';
import { fileUrl, type HubAddress, pageUrl } from '../hub-address.js';
import type { FileStart, ReadRangeOptions, RemoteFile } from '../remote-file.js';
import type { ListedEntry, Repository } from '../repository.js';
import { shownUrl } from '../safe-urls.js';

/**
 * Opens a repository, of which the file or folder of the address is in the cache.
 *
 * @throws SafetensorsError `SAFETENSORS_NOT_IN_CACHE`
 */
export async function openCached(address: HubAddress, signal: AbortSignal): Promise<Repository> {
  const { endpoint, id } = address;
  // The oldest models have no organisation, and no hf:// id.
  const page = shownUrl(pageUrl(endpoint, id, id.revision ?? 'main', id.path));
  const label = hubUri(id, '') ?? page;
  const finding = function* (): Work<Snapshot> {
    const snapshot = yield* findSnapshot(id, label);
    if (id.path !== '') yield* findInSnapshot(snapshot, id.path);
    return snapshot;
  };
  return new CachedRepository(address, await runAsync(finding(), signal));
}

/** The files of a snapshot under the addresses that they have on the Hub. */
class CachedRepository implements Repository {
  readonly lacksApi = false;
  readonly #address: HubAddress;
  readonly #snapshot: Snapshot;

  constructor(address: HubAddress, snapshot: Snapshot) {
    this.#address = address;
    this.#snapshot = snapshot;
  }

  pageOf(folder: string): string {
    const { endpoint, id } = this.#address;
    return shownUrl(pageUrl(endpoint, id, this.#snapshot.id.revision, folder));
  }

  uriOf(relative: string): string {
    const { id } = this.#address;
    return hubUri(id, relative) ?? this.pageOf([id.path, relative].filter(Boolean).join('/'));
  }

  file(path: string): RemoteFile {
    const { endpoint, id } = this.#address;
    const url = fileUrl(endpoint, id, this.#snapshot.id.revision, path);
    return new CachedFile(shownUrl(url), this.#snapshot, path);
  }

  async list(folder: string, signal: AbortSignal, isDeep = false): Promise<ListedEntry[]> {
    const entries: ListedEntry[] = [];
    await runAsync(this.#addEntries(folder, isDeep, entries), signal);
    return entries;
  }

  incompleteError(error: SafetensorsError): SafetensorsError {
    return this.#missing(`the Hub cache is incomplete: ${error.message}`, error);
  }

  /** Leaves out links to missing blobs. A link to a folder is no folder, so the depth is bounded. */
  *#addEntries(folder: string, isDeep: boolean, entries: ListedEntry[]): Work<void> {
    const prefix = folder === '' ? '' : `${folder}/`;
    for (const { name, isFolder } of yield* this.#entriesOf(folder)) {
      const path = prefix + name;
      if (isFolder || (yield* exists(join(this.#snapshot.folder, path)))) {
        entries.push({ path, isFolder });
      }
      if (isFolder && isDeep) yield* this.#addEntries(path, isDeep, entries);
    }
  }

  *#entriesOf(folder: string): ReturnType<typeof listFolder> {
    try {
      return yield* listFolder(join(this.#snapshot.folder, folder));
    } catch (error) {
      if (!hasCode(error, NOTHING_THERE)) throw error;
      throw this.#missing(`expected the folder ${folder} in the Hub cache, found none`, error);
    }
  }

  #missing(message: string, cause: unknown): SafetensorsError {
    const { id, label } = this.#snapshot;
    return notInCache(id, label, message, cause);
  }
}

/** The version of a file, and its path without links. */
interface Version extends Pick<OpenedFile, 'byteLength' | 'mtimeNs'> {
  readonly place: string;
}

/**
 * A file of a snapshot. Every read opens and closes it: a checkpoint may have more shards than a process has
 * descriptors.
 */
class CachedFile implements RemoteFile {
  readonly path: string;
  readonly #snapshot: Snapshot;
  readonly #relative: string;
  #version: Version | undefined;

  constructor(path: string, snapshot: Snapshot, relative: string) {
    this.path = path;
    this.#snapshot = snapshot;
    this.#relative = relative;
  }

  async readStart(maxByteLength: number, signal?: AbortSignal): Promise<FileStart> {
    const reading = this.#whileOpen(function* (file): Work<FileStart> {
      const { byteLength, path } = file;
      const bytes = new Uint8Array(Math.min(maxByteLength, byteLength));
      yield* readFully(readBytesOf(file), bytes, 0, path);
      return { bytes, fileByteLength: byteLength };
    });
    return await runAsync(reading, signal);
  }

  async readInto(
    target: Uint8Array<ArrayBuffer>,
    position: number,
    { signal, onBytes }: ReadRangeOptions = {},
  ): Promise<void> {
    const reading = this.#whileOpen(function* (file): Work<void> {
      yield* readFully(readBytesOf(file), target, position, file.path);
    });
    await runAsync(reading, signal);
    onBytes?.(target.length);
  }

  *#whileOpen<Result>(read: (file: OpenedFile) => Work<Result>): Work<Result> {
    const file = yield* this.#open();
    try {
      const { byteLength, mtimeNs } = this.#version ?? file;
      if (file.byteLength !== byteLength || file.mtimeNs !== mtimeNs) throw this.#changed();
      return yield* read(file);
    } finally {
      yield* closeFile(file.fd);
    }
  }

  /** Opens the file: the first time by its name in the snapshot, later the same blob. */
  *#open(): Work<OpenedFile> {
    if (this.#version === undefined) {
      const place = yield* realPath(yield* findInSnapshot(this.#snapshot, this.#relative));
      const file = yield* openRegularFile(place, this.path);
      const { byteLength, mtimeNs } = file;
      this.#version ??= { place, byteLength, mtimeNs };
      return file;
    }
    try {
      return yield* openRegularFile(this.#version.place, this.path);
    } catch (error) {
      throw hasCode(error, NOTHING_THERE) ? this.#changed(error) : error;
    }
  }

  #changed(cause?: unknown): FileChangedError {
    const message = 'the file in the Hub cache was replaced or deleted; open the checkpoint again';
    return new FileChangedError(message, { path: this.path, cause });
  }
}
