/** The report of a scan. */

import type { Advice } from '../../errors/advice.js';
import type { IrregularityKind } from '../zip/irregularity.js';

/** A class or function that a pickle names. */
export interface ScannedGlobal {
  /** The module, such as `collections`. */
  readonly module: string;
  /** The name in the module, such as `OrderedDict`. */
  readonly name: string;
  /**
   * The byte of the first opcode that names it, from the start of the pickle's entry or of the file; of a file that a
   * pickle loads from its own bytes, the byte of that call.
   */
  readonly position: number;
  /** The archive's entry with the pickle; undefined if the file is not an archive. */
  readonly entry: string | undefined;
  /**
   * - `allowed`: torch's restricted loader allows it
   * - `unknown`: torch's loader rejects it; it rebuilds data, or belongs to a package whose code was not examined
   * - `hostile`: it may run code: everything in Python's standard library, torch, NumPy, pandas and joblib that does
   *   not rebuild data, and attributes of modules by their path
   */
  readonly kind: 'allowed' | 'unknown' | 'hostile';
}

/**
 * Something unknown, or something that careful writers avoid: a kind of irregularity of archives, or
 *
 * - `opcode`: an opcode, or a use of it, that picklers avoid
 * - `persistent-id`: a persistent id other than a storage of the checkpoint
 * - `trailing-bytes`: bytes after the last known part
 * - `header`: a NumPy header in another spelling than NumPy's
 * - `code`: Python code, or TorchScript
 * - `nested-archive`: an archive within the file
 * - `unread-archive`: an archive or a compressed file in a format that the scan cannot read
 * - `unread-entry`: an unexplained entry of the archive
 * - `unread-bytes`: a file of unknown format, storages that the pickle doesn't name, or bytes in a pickle that only a
 *   class named there may read
 * - `checksum`: a wrong checksum
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

/** One finding. */
export interface ScanFinding {
  /** The kind of finding. */
  readonly kind: ScanFindingKind;
  /** The expected or the found thing. */
  readonly message: string;
  /** In bytes, from the start of the entry for findings in a pickle, else of the file. */
  readonly position: number;
  /** The archive's entry with the finding; undefined outside of entries. */
  readonly entry: string | undefined;
}

/**
 * - `safe`: every byte of the file is accounted for, and its pickles name only globals that torch's restricted loader
 *   allows
 * - `no-pickle`: every byte is accounted for, and none belongs to a pickle: safetensors, GGUF, arrays of numbers,
 *   text
 * - `needs-code`: the pickles name globals outside that list, none of which is known to run code, such as classes of
 *   other packages
 * - `suspicious`: globals that run code, or unknown contents; see `findings` for kind and place
 * - `malformed`: the file is damaged or truncated
 */
export type ScanVerdict = 'safe' | 'no-pickle' | 'needs-code' | 'suspicious' | 'malformed';

/** The result of {@link scanPickle}. */
export interface ScanReport {
  /** The verdict. */
  readonly verdict: ScanVerdict;
  /** The file's format by its first bytes. */
  readonly format: string;
  /** Number of scanned pickles. */
  readonly pickleCount: number;
  /** Every global, once for each pickle that names it. */
  readonly globals: readonly ScannedGlobal[];
  /** Odd or unknown contents. */
  readonly findings: readonly ScanFinding[];
  /** The reason why the file, or a pickle in it, is malformed. */
  readonly problems: readonly string[];
  /** Advice for files of this kind; undefined if absent. */
  readonly advice: string | undefined;
  /** Words of the advice that name an option of `open`. */
  readonly optionAdvice?: readonly Advice[];
}
