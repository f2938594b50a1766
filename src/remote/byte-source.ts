/** Sources without an address: a Blob, a folder of them, or a reader of the caller's. */

import { argumentTypeError } from '../errors/arguments.js';
import { isUint8Array, plainBytes, tagOf } from '../errors/brand-checks.js';
import {
  FileChangedError,
  quoteName,
  quoteNames,
  RemoteError,
  SafetensorsError,
} from '../errors/errors.js';
import { chooseFiles, foreignFolder } from '../file/shards/file-choice.js';
import { partsError } from '../file/shards/incomplete-models.js';
import { SHARD_EXTENSION } from '../file/shards/shard-paths.js';
import { withScope } from '../work/scope.js';
import { untilAborted } from '../work/until-aborted.js';
import { foundKindOf, requireInside } from './found-file.js';
import type { FileStart, ReadRangeOptions, RemoteFile, RemoteSource } from './remote-file.js';

/**
 * A file that the caller reads: an object of a store through the store's own client, or a file of the browser's
 * private file system. It must not change while the checkpoint is open.
 *
 * @example
 * ```ts
 * import { open } from 'node:fs/promises';
 *
 * const handle = await open('model.safetensors');
 * const checkpoint = await openRemote({
 *   byteLength: (await handle.stat()).size,
 *   async read(begin, end) {
 *     const { buffer } = await handle.read(new Uint8Array(end - begin), { position: begin });
 *     return buffer;
 *   },
 * });
 * console.log(checkpoint.keys()); // → [ 'embed.weight', 'norm.weight' ]
 * await handle.close();
 * ```
 */
export interface ByteSource {
  /** Name of the file in `path` and errors. */
  readonly name?: string | undefined;
  /** Length of the whole file in bytes. */
  readonly byteLength: number;
  /**
   * Resolves with exactly the bytes [begin, end), at least one, which are copied. Several calls may be under way at
   * once. The signal is aborted once the bytes are no longer needed.
   */
  read(begin: number, end: number, signal: AbortSignal): PromiseLike<Uint8Array>;
}

/** The files of a folder by their paths in it, such as those that were dropped on a page. */
export type BlobFolder = ReadonlyMap<string, Blob>;

/** Whether a value is a Map, whichever realm made it. */
export function isBlobFolder(value: unknown): value is BlobFolder {
  return tagOf(value) === 'Map';
}

/** Whether a value is a Blob, such as a dropped file. */
function isBlob(value: unknown): value is Blob {
  const { size, slice, arrayBuffer } = Object(value);
  return (
    typeof size === 'number' && typeof slice === 'function' && typeof arrayBuffer === 'function'
  );
}

function isByteSource(value: unknown): value is ByteSource {
  const { byteLength, read } = Object(value);
  return Number.isSafeInteger(byteLength) && byteLength >= 0 && typeof read === 'function';
}

/** Throws a TypeError for a reader without a length, such as a missing `ContentLength` of a store. */
function requireLength(value: unknown): void {
  const { byteLength, read } = Object(value);
  if (typeof read !== 'function') return;
  throw argumentTypeError('byteLength of source', 'an integer of at least 0', byteLength);
}

/** Name of the error for reading a Blob whose file has changed. */
const CHANGED: readonly unknown[] = ['NotReadableError', 'NotFoundError'];

/** A Blob as a source of bytes. */
function blobSource(blob: Blob, path: string): ByteSource {
  return {
    byteLength: blob.size,
    async read(begin, end) {
      try {
        return new Uint8Array(await blob.slice(begin, end).arrayBuffer());
      } catch (cause) {
        if (!CHANGED.includes(Object(cause).name)) throw cause;
        const message = 'expected the file as it was, found that it cannot be read any more';
        throw new FileChangedError(`${message}; it was changed, moved or deleted`, { path, cause });
      }
    },
  };
}

/**
 * Wraps a Blob or a reader of the caller's; null for anything else.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for a reader without a valid length
 */
export function byteSourceOf(value: unknown): RemoteSource | null {
  if (!isBlob(value) && !isByteSource(value)) {
    requireLength(value);
    return null;
  }
  // A File has a name, too.
  const { name } = value as { name?: unknown };
  const path = typeof name === 'string' && name !== '' ? name : tagOf(value);
  const source = isBlob(value) ? blobSource(value, path) : value;
  const file = new ByteSourceFile(source, path);
  const withoutSecrets = (error: unknown): unknown => error;
  return { folder: null, file, kind: 'file', close: () => {}, withoutSecrets };
}

/**
 * Opens files of a folder: the index among them, else the only safetensors file.
 *
 * @throws SafetensorsError `SAFETENSORS_CHECKPOINT_NOT_FOUND`
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for what is no Blob
 */
export function blobFolderSource(blobs: BlobFolder): RemoteSource {
  for (const [name, blob] of blobs) {
    if (!isBlob(blob)) throw argumentTypeError(`${quoteName(name)} of source`, 'a Blob', blob);
  }
  const names = [...blobs.keys()];
  const weights = names.filter((name) => name.endsWith(SHARD_EXTENSION));
  const { indexes, single } = chooseFiles(names, undefined);
  const path = indexes[0] ?? single ?? (weights.length === 1 ? weights[0] : undefined);
  if (path === undefined) {
    const lastParts = names.map((name) => name.slice(name.lastIndexOf('/') + 1));
    const ofParts = partsError(lastParts);
    if (ofParts !== undefined) throw ofParts;
    const foreign = weights.length > 0 ? null : foreignFolder(lastParts);
    const found = foreign?.description ?? quoteNames(names);
    const message = `expected an index, or one ${SHARD_EXTENSION} file, found ${found}`;
    const context = { foundFormat: foreign?.format };
    throw new SafetensorsError('SAFETENSORS_CHECKPOINT_NOT_FOUND', message, context);
  }
  const prefix = path.slice(0, path.lastIndexOf('/') + 1);
  const fileAt = (at: string): RemoteFile => {
    const blob = blobs.get(at);
    return blob === undefined ? new AbsentFile(at) : new ByteSourceFile(blobSource(blob, at), at);
  };
  const file = (name: string): RemoteFile => {
    requireInside(name, path);
    return fileAt(prefix + name);
  };
  const kind = foundKindOf(path);
  const withoutSecrets = (error: unknown): unknown => error;
  const siblings = names.flatMap((name) =>
    name.startsWith(prefix) ? [name.slice(prefix.length)] : [],
  );
  const folder = { file, names: async () => siblings };
  return { folder, file: fileAt(path), kind, close: () => {}, withoutSecrets };
}

/** A file that a folder has not. */
class AbsentFile implements RemoteFile {
  readonly path: string;

  constructor(path: string) {
    this.path = path;
  }

  async readStart(): Promise<FileStart> {
    throw this.#error();
  }

  async readInto(): Promise<void> {
    throw this.#error();
  }

  #error(): RemoteError {
    const message = 'expected this file among those that were given, found none';
    return new RemoteError('SAFETENSORS_REMOTE_NOT_FOUND', message, { path: this.path });
  }
}

/** Reads a source and checks the result. */
class ByteSourceFile implements RemoteFile {
  readonly path: string;
  readonly #source: ByteSource;
  readonly #byteLength: number;

  constructor(source: ByteSource, path: string) {
    this.path = path;
    this.#source = source;
    this.#byteLength = source.byteLength;
  }

  async readStart(byteLength: number, signal?: AbortSignal): Promise<FileStart> {
    const bytes = new Uint8Array(Math.min(byteLength, this.#byteLength));
    if (bytes.length > 0) await this.readInto(bytes, 0, { signal });
    return { bytes, fileByteLength: this.#byteLength };
  }

  async readInto(
    target: Uint8Array<ArrayBuffer>,
    position: number,
    { signal, onBytes }: ReadRangeOptions = {},
  ): Promise<void> {
    this.#requireSame();
    const end = position + target.length;
    // The caller's code gets a separate signal, on which it may leave listeners.
    const bytes: unknown = await withScope([signal], async (scope) =>
      untilAborted(this.#source.read(position, end, scope.signal), scope.signal),
    );
    if (!isUint8Array(bytes)) {
      throw argumentTypeError('the result of read()', 'a Uint8Array', bytes);
    }
    const plain = plainBytes(bytes);
    if (plain.length !== target.length) {
      const message = `expected ${target.length} bytes from read(${position}, ${end}), found ${plain.length}`;
      throw new RemoteError('SAFETENSORS_BAD_RESPONSE', message, { path: this.path });
    }
    target.set(plain);
    onBytes?.(target.length);
  }

  #requireSame(): void {
    const { byteLength } = this.#source;
    if (byteLength === this.#byteLength) return;
    const message = `expected ${this.#byteLength} bytes, as when it was opened, found ${byteLength}`;
    throw new FileChangedError(message, { path: this.path });
  }
}
