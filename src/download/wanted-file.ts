/** A file to be downloaded: which bytes it is made of, and how to know that it is right. */

import type { Cast } from '../float32/cast.js';
import type { RemoteFile } from '../remote/remote-file.js';
import type { CastReport } from '../selection/cast-report.js';

/** How bytes that were received are cast, and who hears of elements that were too large. */
export interface CastRun extends Cast {
  onTooLarge(count: number): void;
}

/**
 * Bytes of the new file: those of a remote file from `begin` to `end`, as they are or cast, or some that are
 * known already.
 */
export type Segment =
  | {
      readonly file: RemoteFile;
      readonly begin: number;
      readonly end: number;
      readonly cast?: CastRun | undefined;
    }
  | { readonly file: null; readonly bytes: Uint8Array<ArrayBuffer> };

/** A file to be downloaded. */
export interface WantedFile {
  /** Its path below the target's folder, with `/`. */
  readonly name: string;
  readonly byteLength: number;
  /** All of its bytes, in order. */
  readonly segments: Iterable<Segment>;
  /** Hash of the file as the Hub tells it: its SHA-256, or git's SHA-1; null when nobody tells. */
  readonly hash: string | null;
  /**
   * What the bytes are, as text: two plans with one version have the same bytes. Null when the server gives
   * nothing that a version can be told by.
   */
  readonly version: string | null;
}

/** What is to be downloaded into a folder. */
export interface WantedFiles {
  /** Filled while the files are received. */
  readonly casts: CastReport;
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
}

/** An index, which is small enough for memory. */
export interface WantedIndex extends WantedFile {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** The index when shards have other names for a while. */
  interimIndex(nameOf: (name: string) => string): Uint8Array;
}
