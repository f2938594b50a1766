/** What a file with pickles holds, found without building anything of it. */

import { crc32 } from 'node:zlib';
import { type OptionNames, requireBoolean, requireOptions } from '../../errors/arguments.js';
import { ForeignFormatError, quoteName } from '../../errors/errors.js';
import { describeForeignFormat, HEAD_BYTE_LENGTH } from '../../format/foreign-formats.js';
import type { PathLike } from '../../io/paths.js';
import { kindOf } from '../file-kind.js';
import { lookInto } from '../open-file.js';
import { type AllPickleLimits, allPickleLimits, type PickleLimits } from '../pickle/limits.js';
import { type ScannedPickle, scanOpcodes } from '../pickle/scan.js';
import type { ArchiveEntry, ByteReader } from '../zip/archive.js';
import type { IrregularityKind } from '../zip/irregularity.js';
import { ARCHIVE_LIMITS, type ArchiveLimits } from '../zip/limits.js';
import { inspectArchive } from '../zip/read-archive.js';
import { inflateStart, readEntry, requireCrc32 } from '../zip/read-entry.js';
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

/** TorchScript is a program, whatever its pickles name. */
const TORCH_SCRIPT_ADVICE = 'load it with torch.jit.load and save its state_dict()';

/** Kinds of irregularities that damage explains. */
const DAMAGE: readonly string[] = ['cut-short', 'end-record', 'directory', 'limit'];

/** Most pickles in a file, and most globals and findings of all of them: with more the scan ends. */
const MAX_PICKLES = 1000;
const MAX_LISTED = 10_000;

/** The first bytes of an entry, as they stand in the archive: they tell what it is. */
const START_BYTE_LENGTH = 256;

/** What inflating the starts of all entries may give. */
const MAX_STARTS_BYTE_LENGTH = 2 ** 29;

/** NumPy's headers have some hundred bytes. */
const MAX_HEADER_BYTE_LENGTH = 64 * 1024;

/**
 * What a header of NumPy has when its items may be objects, which are pickled: their letter or word, or a text
 * that may be read as these, since Python evaluates escapes, comments and texts side by side.
 */
const MAY_BE_OBJECTS = /O|object|[\\#]|['"]\s*['"]/;

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
    else if (kind !== 'safetensors' || scan.isPickle(file)) scan.stream(start, file);
    return scan.report(scan.isTorchScript ? 'TorchScript' : formatOf(kind, start));
  });
}

function formatOf(kind: string | undefined, start: Uint8Array): string {
  if (kind === 'safetensors') return 'a safetensors file';
  return describeForeignFormat(start.subarray(0, HEAD_BYTE_LENGTH)) ?? 'unknown';
}

/**
 * Whether the first opcode breaks already, so that nothing can have been called, and names nothing by which code
 * is run: texts that begin with the letter of an opcode, such as `import`.
 */
function isText({ problem, opcodeCount, globals }: ScannedPickle): boolean {
  const isHostile = globals.some(({ module, name }) => isHostileGlobal(module, name));
  return problem !== undefined && opcodeCount === 1 && !isHostile;
}

/** What is found in one file. */
class FileScan {
  readonly #limits: AllPickleLimits;
  readonly #globals: ScannedGlobal[] = [];
  readonly #findings: ScanFinding[] = [];
  readonly #problems: string[] = [];
  #pickleCount = 0;
  /** Whether it is an archive of a program. */
  isTorchScript = false;
  /** What all pickles together may still take. */
  #opcodesLeft: number;
  #byteLengthLeft: number;
  #startsLeft = MAX_STARTS_BYTE_LENGTH;

  constructor(limits: AllPickleLimits) {
    this.#limits = limits;
    this.#opcodesLeft = limits.maxOpcodes;
    this.#byteLengthLeft = limits.maxPickleByteLength;
  }

  report(format: string): ScanReport {
    return {
      verdict: this.#verdict(),
      format,
      pickleCount: this.#pickleCount,
      globals: this.#globals,
      findings: this.#findings,
      problems: this.#problems,
      advice: this.isTorchScript ? TORCH_SCRIPT_ADVICE : adviceFor(this.#globals),
    };
  }

  #verdict(): ScanVerdict {
    const isDamage = ({ kind }: ScanFinding): boolean => DAMAGE.includes(kind);
    if (this.#globals.some(({ kind }) => kind === 'hostile')) return 'suspicious';
    if (!this.#findings.every(isDamage)) return 'suspicious';
    if (this.#problems.length > 0 || this.#findings.length > 0) return 'malformed';
    return this.#globals.some(({ kind }) => kind === 'unknown') ? 'needs-code' : 'safe';
  }

  /** Whether a file can be loaded as a pickle, whatever else it is. */
  isPickle(file: ByteReader): boolean {
    const { globals, problem } = scanOpcodes(this.#headOf(file), 0, this.#limits);
    return globals.length > 0 || problem === undefined;
  }

  #headOf(file: ByteReader): Uint8Array {
    return file.read(0, Math.min(file.byteLength, this.#limits.maxPickleByteLength + 1));
  }

  /** Pickles one after the other; of a legacy checkpoint those before the storages. */
  stream(start: Uint8Array, file: ByteReader): void {
    const head = this.#headOf(file);
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
    this.isTorchScript = entries.some(({ name }) => /^[^/]+\/constants\.pkl$/.test(name));
    for (const entry of entries) {
      try {
        const start = this.#startOf(file, entry, START_BYTE_LENGTH);
        if (isNamedPickle(entry) || (!isNamedStorage(entry) && isPickleAt(start, 0))) {
          const bytes = this.#bytesOf(file, entry, limits);
          const end = this.#pickle(bytes, 0, entry.name);
          if (end !== undefined && end !== bytes.length) this.#noteTrailing(end, entry.name);
        } else {
          if (kindOf(start) === 'npy') {
            const longer = (length: number): Uint8Array => this.#startOf(file, entry, length);
            this.#array(start, longer, () => this.#bytesOf(file, entry, limits), entry.name);
          }
          if (checksums) compareChecksum(file, entry, limits);
        }
      } catch (error) {
        if (!(error instanceof ForeignFormatError)) throw error;
        this.#noteRefused(error, entry);
      }
    }
  }

  /** An array of NumPy: one of objects is a pickle behind the header. */
  numpyArray(start: Uint8Array, file: ByteReader): void {
    const longer = (length: number): Uint8Array => file.read(0, Math.min(length, file.byteLength));
    this.#array(start, longer, () => this.#headOf(file), undefined);
  }

  /** The first bytes of an entry: what so many bytes in the archive give. */
  #startOf(file: ByteReader, entry: ArchiveEntry, byteLength: number): Uint8Array {
    const stored = file.read(entry.begin, Math.min(entry.end, entry.begin + byteLength));
    if (entry.method === 'stored') return stored;
    const start = inflateStart(stored, Math.max(this.#startsLeft, 1), entry, {});
    this.#startsLeft -= start.length;
    if (this.#startsLeft < 0) throw tooLong('the starts of its entries are', entry);
    return start;
  }

  #bytesOf(file: ByteReader, entry: ArchiveEntry, limits: ArchiveLimits): Uint8Array {
    this.#byteLengthLeft -= entry.byteLength;
    if (this.#byteLengthLeft < 0) throw tooLong('with it the pickles are', entry);
    return readEntry(file, entry, {}, limits);
  }

  #array(
    given: Uint8Array,
    longer: (byteLength: number) => Uint8Array,
    whole: () => Uint8Array,
    entry: string | undefined,
  ): void {
    const begin = given[6] === 1 ? 10 : 12;
    const view = new DataView(given.buffer, given.byteOffset, given.byteLength);
    const hasLength = given.length >= begin;
    const length = !hasLength
      ? 0
      : begin === 10
        ? view.getUint16(8, true)
        : view.getUint32(8, true);
    const end = begin + length;
    const isLonger = end > given.length && length <= MAX_HEADER_BYTE_LENGTH;
    const start = isLonger ? longer(end) : given;
    if (end > start.length) {
      this.#noteProblem(`expected a header of NumPy up to byte ${end}, found its start`);
      return;
    }
    const header = Buffer.from(start.subarray(begin, end)).toString('latin1');
    if (MAY_BE_OBJECTS.test(header)) this.#pickle(whole(), end, entry);
  }

  /** Returns where the pickle ends; undefined when it breaks. */
  #pickle(bytes: Uint8Array, begin: number, entry: string | undefined): number | undefined {
    if (
      this.#pickleCount >= MAX_PICKLES ||
      this.#globals.length + this.#findings.length >= MAX_LISTED
    ) {
      this.#noteProblem('found more pickles, or more in them, than are looked at');
      return undefined;
    }
    this.#pickleCount++;
    const context = entry === undefined ? {} : { part: entry };
    const limits = { ...this.#limits, maxOpcodes: this.#opcodesLeft };
    const scanned = scanOpcodes(bytes, begin, limits, context);
    const { globals, oddOpcodes, end, problem } = scanned;
    this.#opcodesLeft -= scanned.opcodeCount;
    if (isText(scanned)) {
      this.#noteProblem(problem as string);
      return undefined;
    }
    for (const { module, name, position } of globals) {
      this.#globals.push({ module, name, position, entry, kind: kindOfGlobal(module, name) });
    }
    for (const { name, position } of oddOpcodes) {
      const message = `the opcode ${name}, which no pickler writes`;
      this.#findings.push({ kind: 'opcode', message, position, entry });
    }
    if (problem === undefined) return end;
    this.#noteProblem(problem);
    return undefined;
  }

  #noteProblem(problem: string): void {
    if (this.#problems.length < MAX_LISTED) this.#problems.push(problem);
  }

  #noteTrailing(position: number, entry: string | undefined): void {
    const message = 'bytes behind the pickle, which another reader may take for something else';
    this.#findings.push({ kind: 'trailing-bytes', message, position, entry });
  }

  #noteRefused({ code, message }: ForeignFormatError, { name, begin }: ArchiveEntry): void {
    if (code !== 'SAFETENSORS_CHECKSUM_MISMATCH') this.#noteProblem(message);
    else this.#findings.push({ kind: 'checksum', message, position: begin, entry: name });
  }
}

function tooLong(what: string, { name }: ArchiveEntry): ForeignFormatError {
  const message = `entry ${quoteName(name)}: ${what} longer than is looked at`;
  return new ForeignFormatError('SAFETENSORS_FOREIGN_LIMIT', message);
}

function kindOfGlobal(module: string, name: string): ScannedGlobal['kind'] {
  if (allowedGlobal(module, name) !== undefined) return 'allowed';
  return isHostileGlobal(module, name) ? 'hostile' : 'unknown';
}

function isPickleAt(bytes: Uint8Array, at: number): boolean {
  const [first, protocol = 0] = bytes.subarray(at, at + 2);
  return first === 0x80 && protocol <= 5;
}

function isNamedPickle({ name }: ArchiveEntry): boolean {
  return /\.(pkl|pickle)$/i.test(name);
}

/** Storages may begin as they like. */
function isNamedStorage({ name }: ArchiveEntry): boolean {
  return /(^|\/)data\/[^/]*$/.test(name);
}

function compareChecksum(file: ByteReader, entry: ArchiveEntry, limits: ArchiveLimits): void {
  if (entry.method === 'deflated') {
    readEntry(file, entry, {}, limits);
    return;
  }
  if (entry.crc32 === null) return;
  let found = 0;
  for (let at = entry.begin; at < entry.end; at += PIECE_BYTE_LENGTH) {
    found = crc32(file.read(at, Math.min(at + PIECE_BYTE_LENGTH, entry.end)), found);
  }
  requireCrc32(entry, found, {});
}
