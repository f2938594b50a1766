/** Sources without an address: a Blob, a folder of them, or a reader of the caller's. */

import { reportsAbsence } from '../errors/absence.js';
import type { Advice } from '../errors/advice.js';
import { argumentTypeError } from '../errors/arguments.js';
import { isUint8Array, plainBytes, tagOf } from '../errors/brand-checks.js';
import { FileChangedError, quoteName, RemoteError } from '../errors/errors.js';
import { indexesAmong, isSafetensorsName } from '../file/shards/file-choice.js';
import { PIPELINE_FILE } from '../file/shards/file-names.js';
import { chooseModel, type NoModel, type PartialModel } from '../file/shards/model-choice.js';
import { filesByFolder, openingCall, pipelineError } from '../file/shards/pipeline-files.js';
import { requireInside } from '../file/shards/shard-paths.js';
import { withScope } from '../work/scope.js';
import { untilAborted } from '../work/until-aborted.js';
import {
  chosenSource,
  distributedSource,
  driveDecision,
  indexReader,
  type ReadIndexOptions,
} from './choose-files.js';
import type { NoRemoteModel } from './found-file.js';
import type { FileStart, ReadRangeOptions, RemoteFile, RemoteSource } from './remote-file.js';

/**
 * A file that the caller reads: an object of a store through the store's own client, or a file of the browser's
 * private file system. It must not change while the checkpoint is open.
 *
 * @example
 * ```ts
 * import { open as openFile } from 'node:fs/promises';
 *
 * const handle = await openFile('model.safetensors');
 * const checkpoint = await open({
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
 * Chooses the files of a model in a folder, as in any other. Names may begin with those of further folders, as in a
 * dropped folder: the model is in the first folder that holds more than one more folder, or in the only one with weights.
 *
 * @throws FormatError for a bad index; TypeError `ERR_INVALID_ARG_TYPE` for a value that is not a Blob
 */
export async function blobFolderSource(
  blobs: BlobFolder,
  options: ReadIndexOptions & { readonly variant: string | undefined },
): Promise<RemoteSource | NoRemoteModel> {
  for (const [name, blob] of blobs) {
    if (!isBlob(blob)) throw argumentTypeError(`${quoteName(name)} of source`, 'a Blob', blob);
  }
  const prefix = modelPrefix([...blobs.keys()]);
  const below = Array.from(blobs.keys(), (name) => name.slice(prefix.length));
  const names = {
    files: below.filter((name) => !name.includes('/')),
    folders: [...new Set(below.flatMap((name) => folderOf(name)))],
  };
  const file = (name: string): RemoteFile => {
    const path = prefix + name;
    requireInside(name, path);
    const blob = blobs.get(path);
    return blob === undefined
      ? new AbsentFile(path)
      : new ByteSourceFile(blobSource(blob, path), path);
  };
  const decision = chooseModel(names, options);
  const chosen = await driveDecision(decision, indexReader(file, options), (name) =>
    blobs.has(prefix + name),
  );
  const folder = { file, names: async () => names.files };
  const found =
    'model' in chosen
      ? chosenSource(chosen, folder)
      : distributedSource(chosen, names.files, folder, options);
  if (found === undefined) {
    return noModel(names.files, below, chosen as PartialModel | NoModel, prefix);
  }
  const withoutSecrets = (error: unknown): unknown => error;
  return { ...found, close: () => {}, withoutSecrets };
}

/** A folder without a model, which may be a pipeline. */
function noModel(
  files: readonly string[],
  below: readonly string[],
  none: PartialModel | NoModel,
  prefix: string,
): NoRemoteModel {
  const path = prefix === '' ? undefined : prefix.slice(0, -1);
  const byFolder = filesByFolder(below.map((name) => ({ name })));
  const callFor = (relative: string, variant: string | undefined): Advice =>
    openingCall('open', `files of ${relative}`, variant);
  const { kind } = none;
  const pipeline = kind === 'none' ? pipelineError(files, byFolder, callFor, path) : undefined;
  if (pipeline !== undefined) return { kind: 'pipeline', error: pipeline };
  return { kind, error: none.errorAt((name) => (name === '' ? path : prefix + name)) };
}

/** The first folder of a path; an empty list without one. */
function folderOf(name: string): readonly string[] {
  const end = name.indexOf('/');
  return end === -1 ? [] : [name.slice(0, end)];
}

/**
 * The folder of the model, with a slash at its end unless it is empty: that which all names have in common, or the only
 * one below it with weights.
 */
function modelPrefix(names: readonly string[]): string {
  const folders = names.map((name) => name.slice(0, name.lastIndexOf('/') + 1));
  const [first = '', ...others] = [...new Set(folders)];
  const parts = first.split('/').slice(0, -1);
  const isCommon = (length: number): boolean => {
    const start = parts.slice(0, length).join('/');
    return others.every((folder) => start === '' || folder.startsWith(`${start}/`));
  };
  let length = parts.length;
  while (length > 0 && !isCommon(length)) length--;
  const common = length === 0 ? '' : `${parts.slice(0, length).join('/')}/`;
  if (names.includes(common + PIPELINE_FILE)) return common;
  const weights = names.filter(
    (name) => isSafetensorsName(name) || indexesAmong([name]).length > 0,
  );
  const ofWeights = new Set(weights.map((name) => name.slice(0, name.lastIndexOf('/') + 1)));
  const [only = common, ...more] = ofWeights;
  return more.length > 0 ? common : only;
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
    const error = new RemoteError('SAFETENSORS_REMOTE_NOT_FOUND', message, { path: this.path });
    return reportsAbsence(error, 'source');
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
