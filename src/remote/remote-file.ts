/**
 * The interface of a remote checkpoint's files. Types only: `http-file` implements them over HTTP, `byte-source` over
 * a Blob or a reader of the caller's.
 */

import type { CheckpointIndex } from '../file/shards/checkpoint-index.js';
import type { ChosenModel } from '../file/shards/model-choice.js';

/** How to read a range of a remote file. */
export interface ReadRangeOptions {
  readonly signal?: AbortSignal | undefined;
  /** Called with the length of every piece that arrives; together they are the length of the range. */
  readonly onBytes?: ((byteLength: number) => void) | undefined;
}

/** The first bytes of a remote file. */
export interface FileStart {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Length of the whole file in bytes. */
  readonly fileByteLength: number;
  /**
   * Whether the length is what decompression has given, which accepts a truncated stream: only the file's own format
   * shows whether it is complete.
   */
  readonly isDecoded?: boolean | undefined;
}

/** One remote file. The first answer pins its version; another version is a FileChangedError. */
export interface RemoteFile {
  /** For messages: an address without credentials, query and fragment. */
  readonly path: string;
  /**
   * The first `byteLength` bytes, all of a file that is shorter, and the length of the whole file. One request. Calls
   * `onRedirected` once the host has redirected to another one and is free for other requests.
   */
  readStart(
    byteLength: number,
    signal?: AbortSignal,
    onRedirected?: () => void,
  ): Promise<FileStart>;
  /**
   * Fills `target`, at least one byte, from `position` on. One request; a retry continues behind the arrived bytes.
   */
  readInto(
    target: Uint8Array<ArrayBuffer>,
    position: number,
    options?: ReadRangeOptions,
  ): Promise<void>;
}

/** The folder of a checkpoint's files. */
export interface RemoteFolder {
  /** The file with this relative path, which was checked to stay below the folder. */
  file(name: string): RemoteFile;
  /** The names of the files in the folder; missing where they cannot be listed. */
  names?(signal: AbortSignal): Promise<readonly string[]>;
}

/** A source whose file is known. */
export interface RemoteSource {
  /** Null if the source is a single file. */
  readonly folder: RemoteFolder | null;
  /** The safetensors file or the index; of shards without an index, the one that is missing. */
  readonly file: RemoteFile;
  /** Of a distributed checkpoint, the file is `.metadata`, or the index that files of ranks don't have. */
  readonly kind: ChosenModel['kind'] | 'distributed';
  /** The files that were chosen in the folder; undefined for the address of a file or an index. */
  readonly chosen?:
    | { readonly model: ChosenModel; readonly index: CheckpointIndex | null }
    | undefined;
  /** Ends all requests and refuses new ones. */
  close(): void;
  /** Removes credentials that a server may have repeated from an error about the source. */
  withoutSecrets(error: unknown): unknown;
}
