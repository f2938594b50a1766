/**
 * What a remote checkpoint asks of the files that it is made of. Types only: `http-file` has them over
 * HTTP, `byte-source` over a Blob or a reader of the caller's.
 */

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
}

/** One remote file. Its version is pinned by the first answer: another one is a FileChangedError. */
export interface RemoteFile {
  /** For messages: an address without credentials, query and fragment. */
  readonly path: string;
  /**
   * The first `byteLength` bytes, all of a file that is shorter, and the length of the whole file. One
   * request. `onRedirected` is called when the host that was asked has led to another one, and may be asked
   * for something else.
   */
  readStart(
    byteLength: number,
    signal?: AbortSignal,
    onRedirected?: () => void,
  ): Promise<FileStart>;
  /**
   * Fills `target`, at least one byte, from `position` on. One request; one that is tried again goes on
   * behind what has arrived.
   */
  readInto(
    target: Uint8Array<ArrayBuffer>,
    position: number,
    options?: ReadRangeOptions,
  ): Promise<void>;
}

/** Where the files of a checkpoint are. */
export interface RemoteFolder {
  /** A file by its relative path, which was checked to stay below the folder. */
  file(name: string): RemoteFile;
}

/** A source that was found. */
export interface RemoteSource {
  /** Null where there is only the one file. */
  readonly folder: RemoteFolder | null;
  /** The safetensors file or the index. */
  readonly file: RemoteFile;
  readonly kind: 'file' | 'index';
  /** Ends what is under way, and refuses more. */
  close(): void;
  /** The error, without what a server may have repeated of the credentials: of all that is read from it. */
  withoutSecrets(error: unknown): unknown;
}
