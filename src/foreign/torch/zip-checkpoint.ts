/** Checkpoints as torch has written them since version 1.6: a zip archive of a pickle and storages. */

import { OPEN_READS } from '../../errors/advice.js';
import { type ErrorContext, FormatError, quoteName } from '../../errors/errors.js';
import { formatOfArchive } from '../../header/foreign-names.js';
import { InflatedEntries } from '../inflated-data.js';
import type { AllPickleLimits } from '../pickle/limits.js';
import { readPickle } from '../pickle/machine.js';
import { readEntry } from '../read-entry.js';
import type { Archive, ArchiveEntry, ByteReader } from '../zip/archive.js';
import type { ArchiveLimits } from '../zip/limits.js';
import { readArchive } from '../zip/read-archive.js';
import { type DescribedCheckpoint, invalidTorch } from './described.js';
import { TorchHost, type UnknownGlobals } from './state-dict/builders.js';
import { StorageIds } from './state-dict/storage-ids.js';
import type { TorchStorage } from './state-dict/values.js';

/** Options for reading a checkpoint. */
export interface ReadOptions {
  readonly pickle: AllPickleLimits;
  readonly archive: ArchiveLimits;
  readonly unknownGlobals: UnknownGlobals;
  /** Where the archive begins in the file, in bytes; 0 by default. */
  readonly begin?: number;
}

/** Known versions of the archive's layout; torch 2.13 writes 3 and reads the same ones. */
const HIGHEST_VERSION = 10;

/** Records that hold a number or a word. */
const LONGEST_NOTE = 64;

/**
 * Reads the directory and the pickle.
 *
 * @throws FormatError
 */
export function readZipCheckpoint(
  file: ByteReader,
  options: ReadOptions,
  context: ErrorContext,
): DescribedCheckpoint {
  const records = new Records(readArchive(file, context, options.archive), file, options, context);
  records.requireVersion();
  const isBigEndian = records.isBigEndian();
  const pickle = records.readPickle();
  const part = { ...context, part: pickle.name };
  const ids = new StorageIds(false, part);
  const host = new TorchHost((id, at) => ids.resolve(id, at), options.unknownGlobals, part);
  const { value, end } = readPickle(pickle.bytes, 0, host, options.pickle, part);
  if (end !== pickle.bytes.length) {
    throw invalidTorch(`expected ${pickle.name} to end at byte ${end}, found more bytes`, context);
  }
  const entries = new Map<TorchStorage, ArchiveEntry>();
  const { begin = 0 } = options;
  for (const storage of ids.storages.values()) {
    const entry = records.entryOf(storage);
    entries.set(storage, { ...entry, begin: begin + entry.begin, end: begin + entry.end });
  }
  return {
    value,
    isBigEndian,
    archive: { entries: [...entries.values()], limits: options.archive },
    placesIn: (whole) => {
      const inflated = new InflatedEntries(whole, options.archive);
      return (storage) => inflated.dataOf(entries.get(storage) as ArchiveEntry);
    },
  };
}

/** The records of an archive, below its only folder. */
class Records {
  readonly #archive: Archive;
  readonly #file: ByteReader;
  readonly #options: ReadOptions;
  readonly #context: ErrorContext;
  readonly #folder: string;

  constructor(archive: Archive, file: ByteReader, options: ReadOptions, context: ErrorContext) {
    this.#archive = archive;
    this.#file = file;
    this.#options = options;
    this.#context = context;
    requireRecords([...archive.entries.keys()], context);
    this.#folder = rootFolder(archive, context);
    if (this.#find('data.pkl') === undefined) throw foreign('no record data.pkl', context);
    if (this.#find('constants.pkl') !== undefined) {
      const advice = 'only if you trust it, load it with torch.jit.load and save its state_dict()';
      throw foreign(`TorchScript, which is a program; ${advice}`, context);
    }
  }

  requireVersion(): void {
    const record = this.#find('version') ?? this.#find('.data/version');
    const text = record === undefined ? 'none' : this.#note(record);
    const version = /^\d{1,9}\n?$/.test(text) ? Number(text) : 0;
    if (version >= 1 && version <= HIGHEST_VERSION) return;
    const expected = `a checkpoint of version 1 to ${HIGHEST_VERSION}`;
    throw invalidTorch(`expected ${expected}, found ${quoteName(text)}`, this.#context);
  }

  /** Little endian without the record, as before torch 2.1. */
  isBigEndian(): boolean {
    const record = this.#find('byteorder');
    const order = record === undefined ? 'little' : this.#note(record);
    if (order === 'little' || order === 'big') return order === 'big';
    throw invalidTorch(
      `expected the byte order little or big, found ${quoteName(order)}`,
      this.#context,
    );
  }

  readPickle(): { readonly name: string; readonly bytes: Uint8Array } {
    const entry = this.#find('data.pkl') as ArchiveEntry;
    const { maxPickleByteLength } = this.#options.pickle;
    if (entry.byteLength > maxPickleByteLength) {
      throw new FormatError(
        'SAFETENSORS_FOREIGN_LIMIT',
        `expected a pickle of at most ${maxPickleByteLength} bytes (limits.maxPickleByteLength), found ${entry.byteLength}`,
        this.#context,
      );
    }
    return { name: entry.name, bytes: this.#read(entry) };
  }

  /** The record of a storage, which must have its exact length. */
  entryOf({ key, byteLength }: TorchStorage): ArchiveEntry {
    const entry = this.#find(`data/${key}`);
    if (entry?.byteLength === byteLength) return entry;
    const found = entry === undefined ? 'no such record' : `${entry.byteLength}`;
    const expected = `${byteLength} bytes in the record data/${key}`;
    throw invalidTorch(`expected ${expected}, found ${found}`, this.#context);
  }

  #find(name: string): ArchiveEntry | undefined {
    return this.#archive.entries.get(this.#folder + name);
  }

  /** The text of a short record. */
  #note(entry: ArchiveEntry): string {
    if (entry.byteLength > LONGEST_NOTE) return `${entry.byteLength} bytes`;
    return String.fromCharCode(...this.#read(entry));
  }

  #read(entry: ArchiveEntry): Uint8Array {
    return readEntry(this.#file, entry, this.#context, this.#options.archive);
  }
}

/** The folder of all records, with the `/` after it. */
function rootFolder({ entries }: Archive, context: ErrorContext): string {
  const names = [...entries.keys()];
  const [first = ''] = names;
  const folder = first.slice(0, first.indexOf('/') + 1);
  if (folder !== '' && names.every((name) => name.startsWith(folder))) return folder;
  if (names.length > 0 && names.every((name) => name.endsWith('.npy'))) {
    const found = `arrays of NumPy (.npz), which ${OPEN_READS.text} by its path`;
    throw foreign(found, { ...context, advice: [OPEN_READS] });
  }
  throw foreign('a zip archive whose records are not below one folder', context);
}

/** Throws for an archive of another format, recognised by the names of its entries. */
function requireRecords(names: readonly string[], context: ErrorContext): void {
  if (names.some((name) => name.endsWith('data.pkl'))) return;
  const found = formatOfArchive(names, context.path);
  if (found === null) return;
  throw foreign(found.description, { ...context, foundFormat: found.format });
}

function foreign(found: string, context: ErrorContext): FormatError {
  const message = `expected a PyTorch checkpoint, found ${found}`;
  return new FormatError('SAFETENSORS_FOREIGN_FORMAT', message, context);
}
