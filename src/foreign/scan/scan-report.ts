/** What a scan says of a file. */

import type { IrregularityKind } from '../zip/irregularity.js';

/** A class or function that a pickle names. */
export interface ScannedGlobal {
  /** The module, such as `collections`. */
  readonly module: string;
  /** The name in the module, such as `OrderedDict`. */
  readonly name: string;
  /** The byte of the opcode that names it first, from the start of its pickle's entry or of the file. */
  readonly position: number;
  /** The entry of the archive that the pickle is; undefined when the file is no archive. */
  readonly entry: string | undefined;
  /**
   * - `allowed`: torch's restricted loader allows it
   * - `unknown`: it does not, and code of some package would be needed
   * - `hostile`: code is run by it
   */
  readonly kind: 'allowed' | 'unknown' | 'hostile';
}

/**
 * Something that was not understood, or that no careful writer writes: a kind of irregularity of archives, or
 *
 * - `opcode`: an opcode that no pickler writes, or not in this way
 * - `persistent-id`: a persistent id that is no storage of the checkpoint
 * - `trailing-bytes`: bytes behind the last thing that was understood
 * - `header`: a header of NumPy that is not spelt as NumPy does
 * - `code`: Python code, or TorchScript
 * - `nested-archive`: an archive within the file
 * - `unread-archive`: an archive or a compressed file of a kind that is not read
 * - `unread-entry`: an entry of the archive that nothing in it accounts for
 * - `unread-bytes`: a file of no format that is known, storages that are not those of the pickle, or bytes in a
 *   pickle that only a class which it names may read
 * - `checksum`: a checksum that is wrong
 */
export type ScanFindingKind =
  | 'opcode'
  | 'persistent-id'
  | 'trailing-bytes'
  | 'header'
  | 'code'
  | 'nested-archive'
  | 'unread-archive'
  | 'unread-entry'
  | 'unread-bytes'
  | 'checksum'
  | IrregularityKind;

/** One of these. */
export interface ScanFinding {
  /** What it is. */
  readonly kind: ScanFindingKind;
  /** What was expected, or what was found. */
  readonly message: string;
  /** In bytes, from the start of the entry for findings in a pickle, else of the file. */
  readonly position: number;
  /** The entry of the archive that it is in; undefined when it is in none. */
  readonly entry: string | undefined;
}

/**
 * - `safe`: every byte of the file was accounted for, and its pickles name only globals that torch's restricted
 *   loader allows
 * - `no-pickle`: every byte was accounted for, and there is no pickle: safetensors, GGUF, arrays of numbers, text
 * - `needs-code`: globals that are not on its list, such as classes of other packages
 * - `suspicious`: globals by which code is run, or anything that was not understood; `findings` says what and where
 * - `malformed`: a file that is damaged or cut short
 */
export type ScanVerdict = 'safe' | 'no-pickle' | 'needs-code' | 'suspicious' | 'malformed';

/** What {@link scanPickle} found. */
export interface ScanReport {
  /** What to make of all this. */
  readonly verdict: ScanVerdict;
  /** What the file is by its first bytes. */
  readonly format: string;
  /** Number of pickles that were looked at. */
  readonly pickleCount: number;
  /** Every global, once for each pickle that names it. */
  readonly globals: readonly ScannedGlobal[];
  /** What is odd, or was not understood. */
  readonly findings: readonly ScanFinding[];
  /** Why the file, or a pickle in it, is malformed. */
  readonly problems: readonly string[];
  /** What to do with files of this kind; undefined when there is nothing special to say. */
  readonly advice: string | undefined;
}
