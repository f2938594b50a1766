/** A file to be downloaded: where its bytes come from, and how to know that it is right. */

import type { Transfer } from '../../platform/transfer/transfer.js';
import type { Replacement } from '../../write/replacement/replacement.js';
import type { SelectionReport } from '../../write/selection/selection-report.js';
import type { RemoteFile } from '../remote-file.js';

/** Bytes of a remote file, from `begin` to `end`. */
export interface RemoteRange {
  readonly file: RemoteFile;
  readonly begin: number;
  readonly end: number;
}

/** Bytes of a new file: those of a remote one, or some that are known already. */
export type Segment =
  | RemoteRange
  | { readonly file: null; readonly bytes: Uint8Array<ArrayBuffer> };

/** What is known of a file before it is received. */
export interface WantedFacts {
  /** Its path below the target's folder, with `/`. */
  readonly name: string;
  readonly byteLength: number;
  /** Hash of the file as the Hub tells it: its SHA-256, or git's SHA-1; null when nobody tells. */
  readonly hash: string | null;
  /**
   * What the bytes are, as text: two plans with one version have the same bytes. Null when the server gives
   * nothing that a version can be told by.
   */
  readonly version: string | null;
}

/** A file that is received byte for byte. */
export interface WholeFile extends WantedFacts {
  /** All of its bytes, in order. */
  readonly segments: Iterable<Segment>;
}

/** How much of a file came from where, in bytes. */
export interface ReceivedFile {
  /** Hash of the file: of the kind that the plan has, else its SHA-256. */
  readonly hash: string;
  /** Received now. */
  readonly receivedByteLength: number;
  /** Received by an earlier try. */
  readonly presentByteLength: number;
}

/** What a call of `download` is told and shares between its files. */
export interface DownloadScope {
  readonly transfer: Transfer;
  /** Is aborted by the caller and when a file fails. */
  readonly signal: AbortSignal;
  /** Aborts the others. */
  abort(reason: unknown): void;
}

/** A file to be downloaded. */
export interface WantedFile extends WantedFacts {
  /**
   * Fills the temporary file. What an earlier download left in it is used as far as it is right.
   *
   * @param place where the file goes
   * @throws RemoteError, FileChangedError; errors of the system; the signal's reason
   */
  receive(
    target: Replacement,
    place: string,
    scope: Pick<DownloadScope, 'transfer' | 'signal'>,
  ): Promise<ReceivedFile>;
}

/** What is to be downloaded into a folder. */
export interface WantedFiles {
  /** Filled while the files are received. */
  readonly report: SelectionReport;
  /** The commit that the files are of; null when they are not of the Hub. */
  readonly commit: string | null;
  /** Files with tensors. */
  readonly weights: readonly WantedFile[];
  /** Files beside them, such as a config. */
  readonly others: readonly WantedFile[];
  /** The index; null for a single file. */
  readonly index: WantedIndex | null;
  /** Names of files beside the weights that are too long to be carried along, or have unsafe names. */
  readonly skipped: readonly string[];
  /**
   * Names of the tensors in one of the weights, in the order of their bytes; null for a file that is no safetensors
   * file.
   */
  tensorsIn(file: WantedFile, signal: AbortSignal): Promise<readonly string[] | null>;
}

/** An index, which is small enough for memory. */
export interface WantedIndex extends WantedFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The index when shards have other names for a while. */
  interimIndex(nameOf: (name: string) => string): Uint8Array;
}
