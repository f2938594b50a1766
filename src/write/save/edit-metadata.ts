/** `editMetadata`: changes the metadata of a file, not its tensors. */

import { type BigIntStats, constants, statSync } from 'node:fs';
import type { Advice } from '../../errors/advice.js';
import { type OptionNames, requireBoolean, requireOptions } from '../../errors/arguments.js';
import { FileChangedError, SafetensorsError } from '../../errors/errors.js';
import { pairsOf } from '../../errors/named-values.js';
import { checkHashes } from '../../file/hash-check.js';
import { readFileHeader } from '../../file/read-header.js';
import { requireModelFile } from '../../file/require-model.js';
import { requireLittleEndianHost } from '../../header/dtype.js';
import { type Header, PREFIX_BYTE_LENGTH, parseStart } from '../../header/header.js';
import {
  changeMetadata,
  fileStart,
  grownByteLength,
  type MetadataChanges,
  spareByteLength,
  withMetadata,
} from '../../header/metadata-changes.js';
import { DIGESTS_KEY } from '../../header/tensor-digests.js';
import { alwaysOpen } from '../../platform/io/acquirable-file.js';
import { closeQuietly, identityOf, statsOf } from '../../platform/io/file-calls.js';
import { changeCheck, type OpenedFile, openRegularFile } from '../../platform/io/opened-file.js';
import { locate, type PathLike } from '../../platform/io/paths.js';
import { aboutFile } from '../../platform/io/system-errors.js';
import { writeFrom, writePieces } from '../../platform/io/write-pieces.js';
import {
  requireTransferOptions,
  TRANSFER_OPTIONS,
  Transfer,
  type TransferOptions,
} from '../../work/transfer.js';
import { runAsync, runSync } from '../../work/work.js';
import { overwriteHeader, requireNoBackup } from '../replacement/header-overwrite.js';
import {
  inTurn,
  LOCK_OPTIONS,
  type LockOptions,
  MAX_LOCK_TRIES,
  requireLockTimeout,
  tryToLock,
  waitForLock,
} from '../replacement/locks.js';
import { Replacement } from '../replacement/replacement.js';
import { type ReplacementTarget, resolveTarget } from '../replacement/target.js';

/** Options of {@link editMetadata}. */
export interface EditMetadataOptions extends TransferOptions, LockOptions {
  /** True overwrites the header in the file itself, if the new one fits. False by default. */
  readonly inPlace?: boolean | undefined;
  /** False does not sync: the change may not survive a loss of power. True by default. */
  readonly durable?: boolean | undefined;
  /** True writes nothing: the result, or the error, is that of the edit. False by default. */
  readonly dryRun?: boolean | undefined;
  /**
   * True reads the file and sets `safetensors-mmap.sha256`, the SHA-256 of every tensor, as `saveFile` does. Digests
   * that the file already declares must match, unless `changes` deletes them. Progress counts bytes read and written.
   * False by default.
   */
  readonly digests?: boolean | undefined;
  /** True reads the file and sets `modelspec.hash_sha256`, the SHA-256 of all tensors together. False by default. */
  readonly modelspecHash?: boolean | undefined;
}

const EDIT_OPTIONS: OptionNames<EditMetadataOptions> = {
  ...TRANSFER_OPTIONS,
  ...LOCK_OPTIONS,
  inPlace: true,
  durable: true,
  dryRun: true,
  digests: true,
  modelspecHash: true,
};

type Flag = 'inPlace' | 'durable' | 'dryRun' | 'digests' | 'modelspecHash';

/** The result of {@link editMetadata}. */
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

/** The options that are true or false. */
type Flags = Readonly<Record<Flag, boolean>>;

/** An edit under way. */
interface Edit {
  readonly target: ReplacementTarget;
  readonly file: OpenedFile;
  /** Closes the file, which releases the lock. */
  readonly close: () => void;
  readonly header: Header;
  /** The new header, without padding. */
  readonly json: Uint8Array;
  readonly flags: Flags;
  readonly options: TransferOptions;
  /** Whether the file is unchanged since its header was read. */
  readonly check: SameFileCheck;
}

/**
 * Sets and deletes keys of a file's metadata: `changes` has new values by key, and null for keys to
 * delete. The rest of the header and the tensors stay as they are, byte for byte. Keys are written
 * sorted. Deleting the last one leaves `{}`.
 *
 * By default the path has the old file or the new one at every moment, whole: the kernel copies the
 * data to a temporary file in the same folder, which is then renamed. Links are followed. The header
 * keeps its length if the new one fits; else the data begins at a multiple of the same power of two as
 * before, from 8 bytes to 2 MiB.
 *
 * Edits of one file wait for each other, across processes too, so that no edit undoes another. They use a lock, which
 * the system releases when a process dies. On a file system without locks (NFS), or without the addon, an edit fails
 * when it finds the file replaced, but it can miss a replacement at the last moment.
 *
 * `inPlace: true` overwrites the header if the padding at its end leaves room, and copies no data. **This is not
 * crash-safe**: if the process or machine dies meanwhile, the header is half old and half new. The old header stays
 * in `<file>.header-backup` until the new one is synced. `dd if=<file>.header-backup of=<file> conv=notrunc` puts it
 * back; then delete the backup. For a name of more than 241 bytes the backup gets a short name, which the error gives.
 * Open handles of the file throw `SAFETENSORS_FILE_CHANGED` after the edit.
 *
 * A file with digests of its tensors is compared with these before it is copied, unless the edit deletes or changes
 * them.
 *
 * @throws FormatError for a file that is not valid safetensors; `SAFETENSORS_CHECKSUM_MISMATCH` when digests that the
 *   file has are wrong
 * @throws InvalidTensorError for a key given twice or a lone surrogate, and
 *   `SAFETENSORS_HEADER_TOO_LARGE`
 * @throws SafetensorsError `SAFETENSORS_HEADER_FULL` when the header does not fit in place, with the
 *   number of missing bytes; `SAFETENSORS_EDIT_INTERRUPTED` when there is a backup;
 *   `SAFETENSORS_HUB_CACHE_BLOB`, `SAFETENSORS_NOT_A_REGULAR_FILE`, `SAFETENSORS_TARGET_IN_USE`,
 *   `SAFETENSORS_LOCKED` when another process edits the file for longer than `lockTimeout`
 * @throws FileChangedError when the file is changed or replaced meanwhile, other than by an edit
 * @throws TypeError `ERR_INVALID_ARG_TYPE` for arguments of the wrong kind
 * @throws Error Node's own `ENOENT`, `ENOSPC` and the like; `signal.reason` when it was aborted. The
 *   file is as it was, except after an error of syncing the folder, which comes last
 *
 * @example
 * ```ts
 * const changes = { license: 'mit', format: null }; // sets one key, deletes the other
 * const { method, metadata } = await editMetadata('model.safetensors', changes);
 * console.log(method, metadata); // → rewritten Map(1) { 'license' => 'mit' }
 * ```
 */
export async function editMetadata(
  path: PathLike,
  changes: MetadataChanges,
  options: EditMetadataOptions = {},
): Promise<MetadataEdit> {
  const flags = flagsOf(options);
  const { inPlace } = flags;
  const { location, label } = locate(path);
  requireLittleEndianHost(label);
  const edit = async (
    target: ReplacementTarget,
    file: OpenedFile,
    close: () => void,
  ): Promise<MetadataEdit> => {
    requireNoBackup(target, label);
    const check = sameFileCheck(file);
    const { header } = await runAsync(readFileHeader(file), options.signal);
    await runAsync(requireModelFile({ header, file, path: label }), options.signal);
    const metadata = await changedMetadata(file, header, changes, flags, options);
    if (metadata === undefined) return outcome('none', header);
    const json = withMetadata(header, metadata);
    const isHashed = flags.digests || flags.modelspecHash;
    // Sums that stay are those of the copied bytes. In place, no bytes are copied.
    const digests = header.metadata?.get(DIGESTS_KEY);
    const isCopied = !isHashed && !inPlace && !flags.dryRun;
    if (isCopied && digests !== undefined && metadata.get(DIGESTS_KEY) === digests) {
      // What does not fit is found before the file is read.
      newStartLength(header, json, flags, label);
      await runAsync(checkHashes(file, header, { verify: true }), options.signal);
    }
    const progress = isHashed ? afterHash(file, options) : options;
    const ready: Edit = { target, file, close, header, json, flags, options: progress, check };
    return await (inPlace ? overwrite(ready) : rewrite(ready));
  };
  const key = resolveTarget(location, label).path.toString('latin1');
  return await inTurn(key, options.signal, async () => {
    for (let tries = 1; ; tries++) {
      const target = resolveTarget(location, label);
      const { fd } = openTarget(target, label, inPlace ? constants.O_RDWR : constants.O_RDONLY);
      const close = closeOnce(fd);
      try {
        if (!tryToLock(fd, label)) await waitForLock(fd, label, options);
        const stats = statsOf({ fd, path: label });
        const { size, mtimeNs } = stats;
        const file = { fd, path: label, byteLength: Number(size), mtimeNs };
        // The previous holder of the lock may have put another file here, which has a separate lock.
        if (isFileAt(target.path, stats) || tries === MAX_LOCK_TRIES)
          return await edit(target, file, close);
      } finally {
        close();
      }
    }
  });
}

/** The metadata after the changes and with the hashes that are wanted; undefined when nothing changes. */
async function changedMetadata(
  file: OpenedFile,
  header: Header,
  changes: MetadataChanges,
  flags: Flags,
  options: TransferOptions,
): Promise<Map<string, string> | undefined> {
  const { metadata } = header;
  if (!flags.digests && !flags.modelspecHash) return changeMetadata(metadata, changes);
  // Loaded when it is wanted: this file is in the first chunk of the package, since an edit looks at its file at once.
  const { changesWithReserve, hashedChanges } = await import('./hashed-changes.js');
  let isNew = false;
  const others = [...pairsOf(changes, 'changes')].filter(([key, value]) => {
    const isOld = key === DIGESTS_KEY && value === null;
    isNew ||= isOld;
    return !isOld || !flags.digests;
  });
  // What does not fit is found before the file is read.
  const sized = changeMetadata(metadata, [...others, ...changesWithReserve(header, flags)]);
  const json = sized === undefined ? header.json : withMetadata(header, sized);
  const start = newStartLength(header, json, flags, file.path);
  const toWrite = flags.inPlace ? start : start + header.dataByteLength;
  const transfer = new Transfer(file.byteLength + (flags.dryRun ? 0 : toWrite), options);
  const hashes = await hashedChanges(file, header, flags, isNew, transfer);
  if (flags.dryRun) transfer.finish();
  return changeMetadata(metadata, [...others, ...hashes]);
}

/** Progress of writing, after the whole file was read. */
function afterHash(
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
const WRITE_AGAIN: Advice = {
  option: 'inPlace',
  text: 'leave `inPlace` out, or save with `reserve` to leave room',
};

function newStartLength(
  header: Header,
  json: Uint8Array,
  { inPlace }: Flags,
  path: string,
): number {
  const { byteLength } = header.json;
  if (!inPlace) return PREFIX_BYTE_LENGTH + grownByteLength(byteLength, json.byteLength, path);
  if (json.byteLength <= byteLength) return header.dataStart;
  throw new SafetensorsError(
    'SAFETENSORS_HEADER_FULL',
    `expected a header of at most ${byteLength} bytes, the room in the file, found ` +
      `${json.byteLength}: ${json.byteLength - byteLength} bytes are missing; ${WRITE_AGAIN.text}`,
    { path, advice: [WRITE_AGAIN] },
  );
}

function closeOnce(fd: number): () => void {
  let isOpen = true;
  return () => {
    if (isOpen) closeQuietly(fd);
    isOpen = false;
  };
}

function flagsOf(options: EditMetadataOptions): Flags {
  requireOptions(options, EDIT_OPTIONS);
  requireTransferOptions(options);
  requireLockTimeout(options);
  const { inPlace = false, durable = true, dryRun = false } = options;
  const { digests = false, modelspecHash = false } = options;
  const flags: Flags = { inPlace, durable, dryRun, digests, modelspecHash };
  for (const [name, value] of Object.entries(flags)) requireBoolean(name, value);
  return flags;
}

function openTarget(target: ReplacementTarget, label: string, access: number): OpenedFile {
  try {
    return runSync(openRegularFile(target.path, label, access));
  } catch (error) {
    throw aboutFile(error, label);
  }
}

/** Whether a path leads to the file. */
function isFileAt(path: Buffer, file: BigIntStats): boolean {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found !== undefined && identityOf(found) === identityOf(file);
}

/** The conditions of an edit, checked again before each step. */
interface SameFileCheck {
  /** Throws unless the path leads to the file that is edited. */
  place(path: Buffer): void;
  /** Throws, too, if the file's size or modification time has changed. */
  placeAndContent(path: Buffer): void;
}

function sameFileCheck({ fd, path: label }: OpenedFile): SameFileCheck {
  const checkContent = changeCheck({ fd, path: label });
  const stats = statsOf({ fd, path: label });
  const place = (path: Buffer): void => {
    if (isFileAt(path, stats)) return;
    const message = 'another file took the place of this one while it was edited; edit it again';
    throw new FileChangedError(message, { path: label });
  };
  const placeAndContent = (path: Buffer): void => {
    checkContent();
    place(path);
  };
  return { place, placeAndContent };
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
      source: { file: alwaysOpen(file), position: header.dataStart },
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
