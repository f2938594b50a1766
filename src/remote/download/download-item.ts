/** A file to download: the places of its bytes, and the hash to check. */

import type { Transfer } from '../../work/transfer.js';
import type { ConfigMismatch } from '../../write/checkpoint/cast-config.js';
import type { Replacement } from '../../write/replacement/replacement.js';
import type { SelectionReport } from '../../write/selection/selection-report.js';
import type { HttpFile } from '../http-file.js';
import type { RemoteFile } from '../remote-file.js';

/** Bytes of a remote file, from `begin` to `end`. */
export interface RemoteRange {
  readonly file: RemoteFile;
  readonly begin: number;
  readonly end: number;
}

/** Bytes of a remote file, or of a local one that is read in the same way. */
export interface ReadRange extends Omit<RemoteRange, 'file'> {
  readonly file: Pick<RemoteFile, 'readInto'>;
}

/** Bytes of a new file: those of other files, or bytes that are already known. */
export type Segment = ReadRange | { readonly file: null; readonly bytes: Uint8Array<ArrayBuffer> };

/** Facts about a file before it is received. */
export interface DownloadItemInfo {
  /** Its path below the target's folder, with `/`. */
  readonly name: string;
  readonly byteLength: number;
  /** The Hub's hash of the file: SHA-256, or git's SHA-1; null if unknown. */
  readonly hash: string | null;
  /**
   * Identifies the bytes: plans with the same version have the same bytes. Null if the server's answers identify no
   * version.
   */
  readonly version: string | null;
}

/** A file that is received byte for byte. */
export interface WholeFile extends DownloadItemInfo {
  /** All of its bytes, in order. */
  readonly segments: Iterable<Segment>;
  /** The remote file that has exactly these bytes; undefined for a file of other parts. */
  readonly whole?: HttpFile | undefined;
}

/** Bytes of a file, received and reused. */
export interface ReceivedFile {
  /** Hash of the file, of the plan's kind, or its SHA-256. */
  readonly hash: string;
  /** Received now. */
  readonly downloadedBytes: number;
  /** Received by an earlier try. */
  readonly reusedBytes: number;
}

/** Settings that a call of `download` shares between its files. */
export interface DownloadScope {
  readonly transfer: Transfer;
  /** Aborted by the caller or by a failed file. */
  readonly signal: AbortSignal;
  /** Aborts the others. */
  abort(reason: unknown): void;
}

/** A file to be downloaded. */
export interface DownloadItem extends DownloadItemInfo {
  /**
   * Fills the temporary file. Reuses the right part of an earlier download's bytes.
   *
   * @param place the path of the file
   * @throws RemoteError, FileChangedError; errors of the system; the signal's reason
   */
  receive(
    target: Replacement,
    place: string,
    scope: Pick<DownloadScope, 'transfer' | 'signal'>,
  ): Promise<ReceivedFile>;
}

/** A model of the plan: its files, which replace those of an earlier one in their folder in one step. */
export interface ModelItems {
  /** Its folder below the target's, with a slash at its end; empty for the target's own. */
  readonly prefix: string;
  /** Files with tensors. */
  readonly weights: readonly DownloadItem[];
  /** The index; null for a single file. */
  readonly index: IndexItem | null;
  /** Names of files in its folder that are wrong next to these, and deleted with the old model. */
  readonly obsolete: readonly string[];
}

/** The plan for a folder. */
export interface DownloadItems {
  /** Filled while the files are received. */
  readonly report: SelectionReport;
  /** The files' commit on the Hub; null for other sources. */
  readonly commit: string | null;
  readonly models: readonly ModelItems[];
  /** Files next to them, such as a config. */
  readonly others: readonly DownloadItem[];
  /** Whether files of earlier models in the folders of the models stay: the caller has chosen single files. */
  readonly isAddition: boolean;
  /** Configurations in the target that list a dtype which the tensors do not have. */
  readonly configMismatches: readonly ConfigMismatch[];
  /** Keys of metadata with different values in the files of the source: at most one of the values is written. */
  readonly conflicts: readonly string[];
  /** Length of all tensors in bytes; null where files are copied, whose headers are not read. */
  readonly totalSize: number | null;
  /** Names of left out files next to the weights: too large, or with unsafe names. */
  readonly skipped: readonly string[];
  /** Names of the tensors in a file, in the order of their bytes; null for one that is not of safetensors. */
  tensorsIn(file: DownloadItem, signal: AbortSignal): Promise<readonly string[] | null>;
}

/** All files of a plan: those with tensors, the indexes, and others. */
export function allFiles({
  models,
  others,
}: Pick<DownloadItems, 'models' | 'others'>): DownloadItem[] {
  const indexes = models.flatMap(({ index }) => index ?? []);
  return [...models.flatMap(({ weights }) => weights), ...indexes, ...others];
}

/** The files of a plan whose bytes are received: all but the indexes, which planning has read. */
export function receivedFiles({
  models,
  others,
}: Pick<DownloadItems, 'models' | 'others'>): DownloadItem[] {
  return [...models.flatMap(({ weights }) => weights), ...others];
}

/** An index, which is small enough for memory. */
export interface IndexItem extends DownloadItem {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The index while shards have temporary names, from names in the folder of the index to such names. */
  interimIndex(nameOf: (name: string) => string): Uint8Array;
}
