/** The part of `editMetadata` after the file is open and locked: the new header, in a new file or in place. */

import { SafetensorsError } from '../../errors/errors.js';
import { pairsOf } from '../../errors/named-values.js';
import { readFileHeader } from '../../file/read-header.js';
import { type Header, PREFIX_BYTE_LENGTH, parseStart } from '../../header/header.js';
import {
  changeMetadata,
  fileStart,
  grownByteLength,
  type MetadataChanges,
  spareByteLength,
  withMetadata,
} from '../../header/metadata-changes.js';
import { SUMS_KEY } from '../../header/tensor-sums.js';
import type { OpenedFile } from '../../platform/io/opened-file.js';
import { runAsync } from '../../platform/io/steps.js';
import { writePieces } from '../../platform/io/write-pieces.js';
import { writeFrom } from '../../platform/io/write-pieces-sync.js';
import { Transfer, type TransferOptions } from '../../platform/transfer/transfer.js';
import { overwriteHeader, requireNoBackup } from '../replacement/header-overwrite.js';
import { Replacement } from '../replacement/replacement.js';
import type { ReplacementTarget } from '../replacement/target.js';
import { changesWithRoom, hashedChanges } from './hashed-changes.js';

/** The result of `editMetadata`. */
export interface MetadataEdit {
  /**
   * `'none'`: no value changed, and nothing was written; `'rewritten'`: a new file replaced the old one; `'inPlace'`:
   * the header was overwritten.
   */
  readonly method: 'none' | 'rewritten' | 'inPlace';
  /** The file's metadata after the edit; null without metadata. */
  readonly metadata: ReadonlyMap<string, string> | null;
  /** Length of the header after the edit, in bytes, without the 8-byte prefix. */
  readonly headerByteLength: number;
  /** Bytes of padding at the header's end: room for longer metadata in place. */
  readonly spareByteLength: number;
}

/** The options of an edit that are true or false. */
export type EditFlags = Readonly<
  Record<'inPlace' | 'durable' | 'dryRun' | 'checksums' | 'modelspecHash', boolean>
>;

/** The conditions of an edit, checked again before each step. */
export interface SameFileCheck {
  /** Throws unless the path leads to the file that is edited. */
  place(path: Buffer): void;
  /** Throws, too, if the file's size or modification time has changed. */
  placeAndContent(path: Buffer): void;
}

/** An edit of a file that is open and, where the system can, locked. */
export interface OpenedEdit {
  readonly target: ReplacementTarget;
  readonly file: OpenedFile;
  /** Closes the file, which releases the lock. */
  readonly close: () => void;
  readonly flags: EditFlags;
  /** Whether the file is unchanged since it was opened. */
  readonly check: SameFileCheck;
}

/** An edit with its new header. */
interface Edit extends OpenedEdit {
  readonly header: Header;
  /** The new header, without padding. */
  readonly json: Uint8Array;
  readonly options: TransferOptions;
}

/** Changes the metadata. @throws As `editMetadata` */
export async function finishEdit(
  opened: OpenedEdit,
  changes: MetadataChanges,
  options: TransferOptions,
): Promise<MetadataEdit> {
  const { target, file, flags } = opened;
  requireNoBackup(target, file.path);
  const { header } = await runAsync(readFileHeader(file), options.signal);
  const metadata = await changedMetadata(file, header, changes, flags, options);
  if (metadata === undefined) return outcome('none', header);
  const json = withMetadata(header, metadata);
  const progress = flags.checksums || flags.modelspecHash ? behind(file, options) : options;
  const edit: Edit = { ...opened, header, json, options: progress };
  return await (flags.inPlace ? overwrite(edit) : rewrite(edit));
}

/** The metadata after the changes and with the hashes that are wanted; undefined when nothing changes. */
async function changedMetadata(
  file: OpenedFile,
  header: Header,
  changes: MetadataChanges,
  flags: EditFlags,
  options: TransferOptions,
): Promise<Map<string, string> | undefined> {
  const { metadata } = header;
  if (!flags.checksums && !flags.modelspecHash) return changeMetadata(metadata, changes);
  let isNew = false;
  const others = [...pairsOf(changes, 'changes')].filter(([key, value]) => {
    const isOld = key === SUMS_KEY && value === null && flags.checksums;
    isNew ||= isOld;
    return !isOld;
  });
  // What does not fit is found before the file is read.
  const sized = changeMetadata(metadata, [...others, ...changesWithRoom(header, flags)]);
  const json = sized === undefined ? header.json : withMetadata(header, sized);
  const start = newStartLength(header, json, flags, file.path);
  const toWrite = flags.inPlace ? start : start + header.dataByteLength;
  const transfer = new Transfer(file.byteLength + (flags.dryRun ? 0 : toWrite), options);
  const hashes = await hashedChanges(file, header, flags, isNew, transfer);
  if (flags.dryRun) transfer.finish();
  return changeMetadata(metadata, [...others, ...hashes]);
}

/** Progress of writing, after the whole file was read. */
function behind(
  { byteLength }: OpenedFile,
  { signal, onProgress }: TransferOptions,
): TransferOptions {
  if (onProgress === undefined) return { signal };
  return {
    signal,
    onProgress: ({ bytes, totalBytes }) =>
      onProgress({ bytes: byteLength + bytes, totalBytes: byteLength + totalBytes }),
  };
}

/**
 * Length of the new header with its prefix, as it will stand in the file.
 *
 * @throws SafetensorsError `SAFETENSORS_HEADER_FULL`; InvalidTensorError `SAFETENSORS_HEADER_TOO_LARGE`
 */
function newStartLength(
  header: Header,
  json: Uint8Array,
  { inPlace }: EditFlags,
  path: string,
): number {
  const { byteLength } = header.json;
  if (!inPlace) return PREFIX_BYTE_LENGTH + grownByteLength(byteLength, json.byteLength, path);
  if (json.byteLength <= byteLength) return header.dataStart;
  throw new SafetensorsError(
    'SAFETENSORS_HEADER_FULL',
    `expected a header of at most ${byteLength} bytes, the room in the file, found ` +
      `${json.byteLength}: ${json.byteLength - byteLength} bytes are missing; leave \`inPlace\` out, ` +
      'or save with `reserve` to leave room',
    { path },
  );
}

async function rewrite(edit: Edit): Promise<MetadataEdit> {
  const { target, file, close, header, json, flags, options, check } = edit;
  const { path } = file;
  const { durable, dryRun } = flags;
  const startLength = newStartLength(header, json, flags, path);
  const start = fileStart(json, startLength - PREFIX_BYTE_LENGTH);
  const byteLength = start.byteLength + header.dataByteLength;
  // Checked like any header.
  const edited = await runAsync(parseStart(start, byteLength, { path }), options.signal);
  if (dryRun) return outcome('rewritten', edited);
  const transfer = new Transfer(byteLength, options, () => check.placeAndContent(target.path));
  const replacement = await Replacement.open(target.path, path, { byteLength, durable });
  try {
    const inFile = {
      position: start.byteLength,
      byteLength: header.dataByteLength,
      source: { file, position: header.dataStart },
    };
    await writePieces(replacement, [writeFrom(start, 0), inFile], transfer);
    const isUnchanged = (old: Buffer): void => {
      check.placeAndContent(old);
      requireNoBackup(target, path);
    };
    await replacement.commit(options.signal, isUnchanged, close);
  } finally {
    replacement.discard();
  }
  return outcome('rewritten', edited);
}

async function overwrite(edit: Edit): Promise<MetadataEdit> {
  const { target, file, header, json, flags, options, check } = edit;
  const { path } = file;
  const { durable, dryRun } = flags;
  const length = newStartLength(header, json, flags, path) - PREFIX_BYTE_LENGTH;
  const before = fileStart(header.json, length);
  const after = fileStart(json, length);
  const edited = await runAsync(parseStart(after, file.byteLength, { path }), options.signal);
  if (dryRun) return outcome('inPlace', edited);
  const transfer = new Transfer(after.byteLength, options);
  const isUnchanged = (): void => {
    // From here on, an abort has to write the old header back.
    options.signal?.throwIfAborted();
    check.placeAndContent(target.path);
  };
  await overwriteHeader({ target, file, before, after, check: isUnchanged, durable }, transfer);
  // A file put in its place meanwhile does not have the edit.
  check.place(target.path);
  return outcome('inPlace', edited);
}

function outcome(method: MetadataEdit['method'], { json, metadata }: Header): MetadataEdit {
  const { byteLength } = json;
  return { method, metadata, headerByteLength: byteLength, spareByteLength: spareByteLength(json) };
}
