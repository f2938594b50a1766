/** What a file with pickles holds, found without building anything of it. */

import { crc32 } from 'node:zlib';
import { type OptionNames, requireBoolean, requireOptions } from '../../errors/arguments.js';
import { ForeignFormatError } from '../../errors/errors.js';
import { describeForeignFormat, HEAD_BYTE_LENGTH } from '../../format/foreign-formats.js';
import type { PathLike } from '../../io/paths.js';
import { kindOf } from '../file-kind.js';
import { lookInto } from '../open-file.js';
import { type AllPickleLimits, allPickleLimits, type PickleLimits } from '../pickle/limits.js';
import { scanOpcodes } from '../pickle/scan.js';
import type { ArchiveEntry, ByteReader } from '../zip/archive.js';
import type { IrregularityKind } from '../zip/irregularity.js';
import { ARCHIVE_LIMITS, type ArchiveLimits } from '../zip/limits.js';
import { inspectArchive } from '../zip/read-archive.js';
import { readEntry } from '../zip/read-entry.js';
import { adviceFor, allowedGlobal, isHostileGlobal } from './globals.js';

/** Options of {@link scanPickle}. */
export interface ScanOptions extends PickleLimits, ArchiveLimits {
  /**
   * Whether to compare the checksums of all entries of an archive, for which all of it is read; by default
   * only those of pickles.
   */
  readonly checksums?: boolean | undefined;
}

const SCAN_OPTIONS: OptionNames<ScanOptions> = {
  ...ARCHIVE_LIMITS,
  maxPickleByteLength: true,
  maxOpcodes: true,
  maxDepth: true,
  maxPickleMemoryByteLength: true,
  checksums: true,
};

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

/** Something that no careful writer writes. */
export interface ScanFinding {
  /** Such as `opcode`, `trailing-bytes`, `checksum`, or a kind of irregularity of archives. */
  readonly kind: 'opcode' | 'trailing-bytes' | 'checksum' | IrregularityKind;
  /** What was expected, or what was found. */
  readonly message: string;
  /** In bytes, from the start of the entry for findings in a pickle, else of the file. */
  readonly position: number;
  /** The entry of the archive that it is in; undefined when it is in none. */
  readonly entry: string | undefined;
}

/**
 * - `safe`: only globals that torch's restricted loader allows, and nothing odd
 * - `needs-code`: globals that are not on its list, such as classes of other packages
 * - `suspicious`: globals by which code is run, opcodes that only attackers use, an archive that readers
 *   understand in several ways
 * - `malformed`: no pickle, or one that is damaged or cut short
 */
export type ScanVerdict = 'safe' | 'needs-code' | 'suspicious' | 'malformed';

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
  /** What is odd. */
  readonly findings: readonly ScanFinding[];
  /** Why the file, or a pickle in it, is malformed. */
  readonly problems: readonly string[];
  /** What to do with files of this kind; undefined when there is nothing special to say. */
  readonly advice: string | undefined;
}

/** The first pickle of torch's legacy stream: its magic number. Five pickles are followed by storages. */
const LEGACY_MAGIC = '8a0a6cfc9c46f9206aa85019';
const LEGACY_PICKLE_COUNT = 5;

/** Kinds of irregularities that damage explains. */
const DAMAGE: readonly string[] = ['cut-short', 'end-record', 'directory', 'limit'];

/** Checksums are made in pieces of this length. */
const PIECE_BYTE_LENGTH = 8 * 2 ** 20;

/**
 * Says what a file with pickles would ask for if it was loaded: every class and function that it names,
 * what is odd about pickles and archive, and a verdict. Builds nothing, runs nothing, and understands also
 * files that `openTorchCheckpoint` refuses: pickles of all protocols, archives with contradictions.
 *
 * @throws Error Node's own `ENOENT`, `EACCES` and the like; SafetensorsError
 *   `SAFETENSORS_NOT_A_REGULAR_FILE`
 *
 * @example
 * ```ts
 * const { verdict, globals } = scanPickle('stranger.pt');
 * console.log(verdict); // → suspicious
 * for (const { module, name, kind } of globals) console.log(`${module}.${name}`, kind);
 * // → posix.system hostile
 * ```
 */
export function scanPickle(path: PathLike, options: ScanOptions = {}): ScanReport {
  requireOptions(options, SCAN_OPTIONS);
  const { checksums = false } = options;
  requireBoolean('checksums', checksums);
  const limits = allPickleLimits(options);
  return lookInto(path, (start, file) => {
    const scan = new FileScan(limits);
    const kind = kindOf(start);
    if (kind === 'zip') scan.archive(file, options, checksums);
    else if (kind === 'npy') scan.numpyArray(start, file);
    else if (kind !== 'safetensors') scan.stream(start, file);
    return scan.report(formatOf(kind, start));
  });
}

function formatOf(kind: string | undefined, start: Uint8Array): string {
  if (kind === 'safetensors') return 'a safetensors file';
  return describeForeignFormat(start.subarray(0, HEAD_BYTE_LENGTH)) ?? 'unknown';
}

/** What is found in one file. */
class FileScan {
  readonly #limits: AllPickleLimits;
  readonly #globals: ScannedGlobal[] = [];
  readonly #findings: ScanFinding[] = [];
  readonly #problems: string[] = [];
  #pickleCount = 0;

  constructor(limits: AllPickleLimits) {
    this.#limits = limits;
  }

  report(format: string): ScanReport {
    return {
      verdict: this.#verdict(),
      format,
      pickleCount: this.#pickleCount,
      globals: this.#globals,
      findings: this.#findings,
      problems: this.#problems,
      advice: adviceFor(this.#globals),
    };
  }

  #verdict(): ScanVerdict {
    const isDamage = ({ kind }: ScanFinding): boolean => DAMAGE.includes(kind);
    if (this.#globals.some(({ kind }) => kind === 'hostile')) return 'suspicious';
    if (!this.#findings.every(isDamage)) return 'suspicious';
    if (this.#problems.length > 0 || this.#findings.length > 0) return 'malformed';
    return this.#globals.some(({ kind }) => kind === 'unknown') ? 'needs-code' : 'safe';
  }

  /** Pickles one after the other; of a legacy checkpoint those before the storages. */
  stream(start: Uint8Array, file: ByteReader): void {
    const head = file.read(0, Math.min(file.byteLength, this.#limits.maxPickleByteLength + 1));
    const magic = Buffer.from(start.subarray(0, 32)).toString('hex');
    const isLegacy = magic.includes(LEGACY_MAGIC);
    let at = 0;
    do {
      const end = this.#pickle(head, at, undefined);
      if (end === undefined) return;
      at = end;
    } while (isLegacy ? this.#pickleCount < LEGACY_PICKLE_COUNT : isPickleAt(head, at));
    if (!isLegacy && at < file.byteLength) this.#noteTrailing(at, undefined);
  }

  archive(file: ByteReader, limits: ArchiveLimits, checksums: boolean): void {
    const { entries, irregularities } = inspectArchive(file, limits);
    for (const { kind, message, position, entry } of irregularities) {
      this.#findings.push({ kind, message, position, entry });
    }
    for (const entry of entries) {
      try {
        const isPickle = mayBePickle(file, entry);
        if (isPickle || entry.name.endsWith('.npy')) this.#entry(file, entry, isPickle, limits);
        else if (checksums) compareChecksum(file, entry, limits);
      } catch (error) {
        if (!(error instanceof ForeignFormatError)) throw error;
        this.#noteRefused(error, entry);
      }
    }
  }

  #entry(file: ByteReader, entry: ArchiveEntry, isPickle: boolean, limits: ArchiveLimits): void {
    const { maxPickleByteLength } = this.#limits;
    if (entry.byteLength > maxPickleByteLength) {
      if (isPickle) this.#problems.push(`${entry.name} is longer than maxPickleByteLength allows`);
      return;
    }
    const bytes = readEntry(file, entry, {}, limits);
    if (!isPickle) {
      this.#arrayBody(bytes, bytes, entry.name);
      return;
    }
    const end = this.#pickle(bytes, 0, entry.name);
    if (end !== undefined && end !== bytes.length) this.#noteTrailing(end, entry.name);
  }

  /** An array of NumPy: one of objects is a pickle behind the header. */
  numpyArray(start: Uint8Array, file: ByteReader): void {
    this.#arrayBody(
      start,
      file.read(0, Math.min(file.byteLength, this.#limits.maxPickleByteLength)),
      undefined,
    );
  }

  #arrayBody(start: Uint8Array, bytes: Uint8Array, entry: string | undefined): void {
    const [version = 0] = start.subarray(6);
    const view = new DataView(start.buffer, start.byteOffset, start.byteLength);
    const prefix = version === 1 ? 10 : 12;
    if (start.length < prefix) return;
    const end = prefix + (version === 1 ? view.getUint16(8, true) : view.getUint32(8, true));
    const header = String.fromCharCode(...start.subarray(prefix, Math.min(end, prefix + 10_000)));
    if (/['"]\|?O/.test(header)) this.#pickle(bytes, Math.min(end, bytes.length), entry);
  }

  /** Returns where the pickle ends; undefined when it breaks. */
  #pickle(bytes: Uint8Array, begin: number, entry: string | undefined): number | undefined {
    this.#pickleCount++;
    const context = entry === undefined ? {} : { part: entry };
    const { globals, oddOpcodes, end, problem } = scanOpcodes(bytes, begin, this.#limits, context);
    for (const { module, name, position } of globals) {
      this.#globals.push({ module, name, position, entry, kind: kindOfGlobal(module, name) });
    }
    for (const { name, position } of oddOpcodes) {
      const message = `the opcode ${name}, which no pickler writes`;
      this.#findings.push({ kind: 'opcode', message, position, entry });
    }
    if (problem === undefined) return end;
    this.#problems.push(problem);
    return undefined;
  }

  #noteTrailing(position: number, entry: string | undefined): void {
    const message = 'bytes behind the pickle, which another reader may take for something else';
    this.#findings.push({ kind: 'trailing-bytes', message, position, entry });
  }

  #noteRefused({ code, message }: ForeignFormatError, { name, begin }: ArchiveEntry): void {
    if (code !== 'SAFETENSORS_CHECKSUM_MISMATCH') this.#problems.push(message);
    else this.#findings.push({ kind: 'checksum', message, position: begin, entry: name });
  }
}

function kindOfGlobal(module: string, name: string): ScannedGlobal['kind'] {
  if (allowedGlobal(module, name) !== undefined) return 'allowed';
  return isHostileGlobal(module, name) ? 'hostile' : 'unknown';
}

function isPickleAt(bytes: Uint8Array, at: number): boolean {
  const [first, protocol = 0] = bytes.subarray(at, at + 2);
  return first === 0x80 && protocol <= 5;
}

/** By its name, or its first bytes; but storages may begin as they like. */
function mayBePickle(file: ByteReader, { name, method, begin, end }: ArchiveEntry): boolean {
  if (/\.(pkl|pickle)$/i.test(name)) return true;
  if (/(^|\/)data\/[^/]*$/.test(name) || method !== 'stored' || end - begin < 2) return false;
  return isPickleAt(file.read(begin, begin + 2), 0);
}

function compareChecksum(file: ByteReader, entry: ArchiveEntry, limits: ArchiveLimits): void {
  if (entry.method === 'deflated') {
    readEntry(file, entry, {}, limits);
    return;
  }
  let found = 0;
  for (let at = entry.begin; at < entry.end; at += PIECE_BYTE_LENGTH) {
    found = crc32(file.read(at, Math.min(at + PIECE_BYTE_LENGTH, entry.end)), found);
  }
  if (found === entry.crc32) return;
  const message = `entry ${entry.name}: expected the CRC-32 ${entry.crc32}, found ${found}`;
  throw new ForeignFormatError('SAFETENSORS_CHECKSUM_MISMATCH', message);
}
