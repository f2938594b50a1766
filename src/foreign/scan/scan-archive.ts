/** Scans archives: every entry must be a storage of the pickle, an array, or a known record with a known text. */

import { crc32 } from 'node:zlib';
import { FormatError } from '../../errors/errors.js';
import { describeContainer } from '../../header/foreign-formats.js';
import { cut } from '../../work/byte-ranges.js';
import { isNpy } from '../numpy/npy-header.js';
import { mayRun } from '../pickle/scan.js';
import { inflateStart, readEntry, requireCrc32 } from '../read-entry.js';
import type { ArchiveEntry, ByteReader } from '../zip/archive.js';
import type { ArchiveLimits } from '../zip/limits.js';
import { inspectArchive } from '../zip/read-archive.js';
import { type ArraySource, scanArray } from './scan-array.js';
import { type ScanNotes, tooLong } from './scan-notes.js';
import { hasKerasCode, KERAS_CODE } from './scan-other.js';
import { NamedStorages } from './scan-storages.js';
import { isPickleAt, noteTrailing } from './scan-stream.js';

/** Options for scanning an archive. */
export interface ArchiveScanOptions extends ArchiveLimits {
  readonly verify: boolean;
}

/** Records that torch writes next to pickle and storages, and their contents. */
const RECORDS: ReadonlyMap<string, RegExp> = new Map([
  ['version', /^\d{1,9}\n?$/],
  ['.data/version', /^\d{1,9}\n?$/],
  ['byteorder', /^(little|big)$/],
  ['.format_version', /^\d{1,9}$/],
  ['.storage_alignment', /^\d{1,9}$/],
  ['.data/serialization_id', /^\d{1,64}$/],
]);
const LONGEST_RECORD = 64;
/** Deflated entries may contain flushes. */
const LONGEST_STORED_RECORD = 1024;

/** Torch numbers storages; a file with another name could pass for what its name says. */
const STORAGE_KEY = /^\d{1,20}$/;

/** Names of programs, and the folder of TorchScript. */
const CODE_FILE = /\.(py|pyc|pyo|pyd|so|dll|dylib|sh|jar|class)$|(^|\/)code\//i;

/** Number of an entry's first bytes that tell its format. */
const ENTRY_START_BYTE_LENGTH = 512;

/** Length of the pieces for computing checksums, which stay in the processor's cache between reading and adding up. */
const SCANNED_PIECE_BYTE_LENGTH = 2 ** 18;

/** Scans an archive. */
export function scanArchive(file: ByteReader, options: ArchiveScanOptions, notes: ScanNotes): void {
  const { entries, irregularities } = inspectArchive(file, options);
  for (const { kind, message, position, entry } of irregularities) {
    notes.add(kind, message, position, entry);
  }
  new ArchiveScan(file, entries, options, notes).run();
}

class ArchiveScan {
  readonly #file: ByteReader;
  readonly #entries: readonly ArchiveEntry[];
  readonly #options: ArchiveScanOptions;
  readonly #notes: ScanNotes;
  /** The folder of all entries, with the `/` after it; undefined without one. */
  readonly #folder: string | undefined;
  /** The storages that the pickle of a checkpoint names. */
  #storages: NamedStorages | undefined;
  /** Whether that pickle is broken, so that its storages are unknown. */
  #isBroken = false;
  /** Reused for the pieces of entries whose checksums are computed. */
  readonly #piece = new Uint8Array(SCANNED_PIECE_BYTE_LENGTH);
  /** Remaining bytes of the archive to compare with checksums: each byte once, unless entries overlap. */
  #comparableLeft: number;

  constructor(
    file: ByteReader,
    entries: readonly ArchiveEntry[],
    options: ArchiveScanOptions,
    notes: ScanNotes,
  ) {
    this.#file = file;
    this.#entries = entries;
    this.#options = options;
    this.#notes = notes;
    this.#folder = commonFolder(entries);
    this.#comparableLeft = file.byteLength;
  }

  run(): void {
    const checkpoint = this.#find('data.pkl');
    if (checkpoint !== undefined) {
      this.#guarded(checkpoint, () => {
        // NumPy allows any name.
        if (isNpy(this.#startOf(checkpoint, ENTRY_START_BYTE_LENGTH))) this.#scanArray(checkpoint);
        else this.#scanCheckpoint(checkpoint);
      });
    }
    if (this.#find('constants.pkl') !== undefined) {
      this.#notes.isTorchScript = true;
      this.#notes.add('code', 'TorchScript, which is a program', 0);
    }
    for (const entry of this.#entries) {
      // The verdict is certain after this many findings.
      if (this.#notes.isFull) return;
      if (entry !== checkpoint) this.#guarded(entry, () => this.#scanEntry(entry));
    }
  }

  #scanCheckpoint(entry: ArchiveEntry): void {
    this.#storages = new NamedStorages(false, this.#notes, entry.name);
    this.#scanPickle(entry, this.#storages);
  }

  #find(record: string): ArchiveEntry | undefined {
    const name = this.#folder === undefined ? undefined : this.#folder + record;
    return this.#entries.find((entry) => entry.name === name);
  }

  /** Notes a reader's error and continues with the next entry. */
  #guarded(entry: ArchiveEntry, scan: () => void): void {
    try {
      scan();
    } catch (error) {
      if (!(error instanceof FormatError)) throw error;
      if (entry.name.endsWith('data.pkl')) this.#isBroken = true;
      this.#notes.addError(error, entry.begin, entry.name);
    }
  }

  #scanEntry(entry: ArchiveEntry): void {
    const start = this.#startOf(entry, ENTRY_START_BYTE_LENGTH);
    if (isNpy(start)) {
      this.#scanArray(entry);
    } else if (!this.#isStorage(entry) && !this.#isRecord(entry)) {
      const isMarked = /\.(pkl|pickle)$/i.test(entry.name) || isPickleAt(start, 0);
      if (!isMarked) this.#noteUnread(entry, start);
      else this.#scanPickle(entry, undefined);
      // A checkpoint has one pickle.
      if (isMarked && this.#storages !== undefined) this.#addUnread(entry);
      return;
    }
    if (this.#options.verify) this.#compareChecksum(entry);
  }

  /** Whether the entry is a storage of the pickle, with this length and a number as its name. */
  #isStorage({ name, byteLength }: ArchiveEntry): boolean {
    const prefix = `${this.#folder}data/`;
    const key = name.slice(prefix.length);
    const isNamed = name.startsWith(prefix) && STORAGE_KEY.test(key);
    if (this.#storages === undefined || !isNamed) return false;
    const storage = this.#storages.ids.storages.get(key);
    // The damaged pickle explains the entry.
    return this.#isBroken || storage?.byteLength === byteLength;
  }

  #isRecord(entry: ArchiveEntry): boolean {
    const prefix = this.#folder ?? '';
    const text = entry.name.startsWith(prefix) && RECORDS.get(entry.name.slice(prefix.length));
    const isShort =
      entry.byteLength <= LONGEST_RECORD && entry.end - entry.begin <= LONGEST_STORED_RECORD;
    if (!text || !isShort || this.#storages === undefined) return false;
    const bytes = readEntry(this.#file, entry, {}, this.#options);
    return text.test(String.fromCharCode(...bytes));
  }

  #scanPickle(entry: ArchiveEntry, storages: NamedStorages | undefined): void {
    const bytes = this.#bytesOf(entry);
    const source = { bytes, byteLength: bytes.length, entry: entry.name };
    const scanned = this.#notes.walk(source, 0, storages?.note);
    this.#notes.addPickle(scanned, entry.name);
    if (scanned.problem === undefined) noteTrailing(source, scanned.end, this.#notes);
    else if (storages !== undefined) this.#isBroken = true;
  }

  #scanArray(entry: ArchiveEntry): void {
    const source: ArraySource = {
      entry: entry.name,
      byteLength: entry.byteLength,
      start: (byteLength) => this.#startOf(entry, byteLength),
      head: () => this.#bytesOf(entry),
    };
    const end = scanArray(source, this.#notes);
    if (end === undefined || end === entry.byteLength) return;
    this.#notes.add('trailing-bytes', 'bytes after the items of an array', end, entry.name);
  }

  /** Notes an unexplained entry with its format, unless it is a pickle without a mark. */
  #noteUnread(entry: ArchiveEntry, start: Uint8Array): void {
    const { name, begin } = entry;
    const container = describeContainer(start);
    if (container !== undefined) {
      this.#notes.add('nested-archive', `found in the archive: ${container}`, begin, name);
      return;
    }
    const bytes = this.#bytesOf(entry);
    if (CODE_FILE.test(name)) {
      this.#notes.add('code', 'code by its name', begin, name);
    } else if (hasKerasCode(bytes)) {
      this.#notes.add('code', KERAS_CODE, begin, name);
    } else {
      const source = { bytes, byteLength: bytes.length, entry: name };
      const scanned = this.#notes.walk(source, 0);
      if (mayRun(scanned)) this.#notes.addPickle(scanned, name);
      this.#addUnread(entry);
    }
  }

  #addUnread({ begin, name }: ArchiveEntry): void {
    const message = 'expected an entry that the pickle or its name accounts for, found another';
    this.#notes.add('unread-entry', message, begin, name);
  }

  /** The first bytes of an entry: at least `byteLength`, or all. */
  #startOf(entry: ArchiveEntry, byteLength: number): Uint8Array {
    const { begin, end, method, name } = entry;
    if (method === 'stored') return this.#file.read(begin, Math.min(end, begin + byteLength));
    const wanted = Math.min(byteLength, entry.byteLength);
    for (let taken = byteLength; ; taken *= 4) {
      const stored = this.#file.read(begin, Math.min(end, begin + taken));
      const start = this.#notes.spendStart(name, stored.length, (most) =>
        inflateStart(stored, most, entry, {}),
      );
      if (start.length >= wanted || begin + taken >= end) return start;
    }
  }

  #bytesOf(entry: ArchiveEntry): Uint8Array {
    // Reads the deflated bytes as a whole, too.
    this.#notes.spendBytes(Math.max(entry.byteLength, entry.end - entry.begin), entry.name);
    return readEntry(this.#file, entry, {}, this.#options);
  }

  #compareChecksum(entry: ArchiveEntry): void {
    this.#comparableLeft -= entry.end - entry.begin;
    if (this.#comparableLeft < 0) throw tooLong('with it the bytes of all entries are', entry.name);
    if (entry.method === 'deflated') {
      readEntry(this.#file, entry, {}, this.#options);
      return;
    }
    if (entry.crc32 === null) return;
    let found = 0;
    for (const { begin, end } of cut(entry.begin, entry.end, SCANNED_PIECE_BYTE_LENGTH)) {
      found = crc32(this.#file.read(begin, end, this.#piece), found);
    }
    requireCrc32(entry, found, {});
  }
}

function commonFolder(entries: readonly ArchiveEntry[]): string | undefined {
  const [first] = entries;
  if (first === undefined) return undefined;
  const folder = first.name.slice(0, first.name.indexOf('/') + 1);
  return folder !== '' && entries.every(({ name }) => name.startsWith(folder)) ? folder : undefined;
}
