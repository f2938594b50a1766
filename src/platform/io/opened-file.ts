/**
 * Opens regular files, reads them at a position, and notices every change while they are copied.
 * `platform/storage/file-backed` has the tolerant check of open files.
 */

import { type BigIntStats, constants, type StatsBase } from 'node:fs';
import { FileChangedError, SafetensorsError } from '../../errors/errors.js';
import type { Work } from '../../work/work.js';
import { retryWithoutDropped } from './dropped-files.js';
import { closeFile, openPath, readOnce, statOpened, statPath, statsOf } from './file-calls.js';
import type { DescriptorArgument } from './paths.js';
import type { ReadFile } from './pool-calls.js';
import { type FileIdentity, isSameFile } from './reclaimable-descriptors.js';
import { hasCode } from './system-errors.js';

/** The facts that `requireRegularFile` needs. */
type KindOfFile = StatsBase<number | bigint>;

/** Most bytes of one read call: Node refuses lengths of 2 GiB and above. */
const MAX_READ_BYTE_LENGTH = 2 ** 30;

/** What changes when a file is written to. */
type SizeAndTime = Pick<BigIntStats, 'size' | 'mtimeNs'>;

/** A file of a descriptor of the caller's, who keeps and closes it. */
interface Borrowed extends FileIdentity {
  readonly handle: DescriptorArgument['handle'];
}

/** An open file. */
export interface OpenedFile extends ReadFile {
  readonly path: string;
  /** Its size when it was opened, in bytes. */
  readonly byteLength: number;
  /** Its modification time when it was opened, in nanoseconds. */
  readonly mtimeNs: bigint;
  /** Undefined where a path is not needed again. */
  readonly identity?: FileIdentity | undefined;
  /** Undefined when the descriptor is ours to close. */
  readonly borrowed?: Borrowed | undefined;
}

function describeKind(stats: KindOfFile): string {
  if (stats.isDirectory()) return 'a directory';
  if (stats.isFIFO()) return 'a named pipe (FIFO)';
  if (stats.isCharacterDevice()) return 'a character device';
  if (stats.isBlockDevice()) return 'a block device';
  return stats.isSocket() ? 'a socket' : 'not a regular file';
}

/** Throws `SAFETENSORS_NOT_A_REGULAR_FILE` unless the file is regular. `label` names it in the message. */
export function requireRegularFile(stats: KindOfFile, label: string): void {
  if (!stats.isFile()) throw notRegular(describeKind(stats), label);
}

function notRegular(found: string, label: string): SafetensorsError {
  const message = `expected a regular file, found ${found}`;
  return new SafetensorsError('SAFETENSORS_NOT_A_REGULAR_FILE', message, { path: label });
}

/**
 * Opens a regular file, for reading unless the flag says otherwise. `label` names it in messages. The
 * caller closes the descriptor.
 *
 * O_NONBLOCK keeps a FIFO without a writer from hanging the process. It has no effect on regular
 * files.
 *
 * @throws `SAFETENSORS_NOT_A_REGULAR_FILE`; Node's own errors such as `ENOENT` and `EACCES`
 */
export function* openRegularFile(
  path: string | Buffer,
  label: string,
  flag: number = constants.O_RDONLY,
): Work<OpenedFile> {
  const file = yield* openFileOrFolder(path, label, flag);
  if (file === undefined) throw notRegular('a directory', label);
  return file;
}

/** As above; undefined for a folder. */
export function* openFileOrFolder(
  path: string | Buffer,
  label: string,
  flag: number = constants.O_RDONLY,
): Work<OpenedFile | undefined> {
  const fd = yield* openWithoutWaiting(path, label, flag);
  try {
    const stats = yield* statOpened({ fd, path: label });
    if (stats.isDirectory()) {
      yield* closeFile(fd);
      return undefined;
    }
    requireRegularFile(stats, label);
    const { dev, ino, mtimeNs } = stats;
    const identity = { dev, ino };
    return { fd, path: label, byteLength: Number(stats.size), mtimeNs, identity };
  } catch (error) {
    yield* closeFile(fd);
    throw error;
  }
}

/**
 * Looks at a regular file of a descriptor of the caller's, whose position is not moved.
 *
 * @throws `SAFETENSORS_NOT_A_REGULAR_FILE`; Node's `EBADF`
 */
export function* leaseFile({ fd, label, handle }: DescriptorArgument): Work<OpenedFile> {
  const stats = yield* statOpened({ fd, path: label });
  requireRegularFile(stats, label);
  const { dev, ino, mtimeNs } = stats;
  const borrowed = { dev, ino, handle };
  return { fd, path: label, byteLength: Number(stats.size), mtimeNs, borrowed };
}

/** Closes the descriptor of a file that was only read, unless it is the caller's. */
export function* closeOwn({ fd, borrowed }: OpenedFile): Work<void> {
  if (borrowed === undefined) yield* closeFile(fd);
}

function* openWithoutWaiting(path: string | Buffer, label: string, flag: number): Work<number> {
  try {
    // Windows has no O_NONBLOCK, and no FIFOs in the file system either.
    return yield* retryWithoutDropped(() => openPath(path, flag | (constants.O_NONBLOCK ?? 0)));
  } catch (error) {
    // A socket cannot be opened at all.
    if (hasCode(error, ['ENXIO'])) requireRegularFile(yield* statPath(path), label);
    throw error;
  }
}

/**
 * Opens a file again whose descriptor was reclaimed. The caller closes the new one.
 *
 * @throws FileChangedError when the path leads to another file; Node's own errors
 */
export function* openAgain(path: string, label: string, identity: FileIdentity): Work<number> {
  const opened = yield* openRegularFile(path, label);
  if (isSameFile(opened.identity as FileIdentity, identity)) return opened.fd;
  yield* closeFile(opened.fd);
  throw replaced(label);
}

function replaced(path: string | undefined): FileChangedError {
  const message =
    'another file has replaced this one, whose descriptor was closed for reuse: open it again';
  return new FileChangedError(message, { path });
}

/** Reads from `position` into the start of `target`. Returns the bytes read, 0 at the file's end. */
export type ReadBytes = (target: Uint8Array, position: number) => Work<number>;

/** Reads through the descriptor. */
export function readBytesOf(file: ReadFile): ReadBytes {
  return (target, position) =>
    readOnce(file, target, Math.min(target.byteLength, MAX_READ_BYTE_LENGTH), position);
}

/** Returns the error of a read beyond the end of the file. Both arguments are positions in the file. */
export function truncatedError(
  path: string | undefined,
  expected: number,
  found: number,
): FileChangedError {
  return new FileChangedError(
    `the file was truncated: expected at least ${expected} bytes, found ${found}`,
    { path },
  );
}

/**
 * Returns a function that throws FileChangedError once the file has another size or modification time
 * than now: a copy must not be half old, half new.
 */
export function changeCheck(file: ReadFile, since: SizeAndTime = statsOf(file)): () => void {
  return () => requireSameStats(file.path, since, statsOf(file));
}

/** Throws FileChangedError unless size and modification time are the same; `now` is undefined for a replaced file. */
export function requireSameStats(
  path: string | undefined,
  { size, mtimeNs }: SizeAndTime,
  now: SizeAndTime | undefined,
): void {
  if (now === undefined) throw replaced(path);
  if (now.size === size && now.mtimeNs === mtimeNs) return;
  const expected = `${size} bytes, modified at ${mtimeNs} ns`;
  const found = `${now.size} bytes, modified at ${now.mtimeNs} ns`;
  throw new FileChangedError(
    `the file changed while it was read: expected ${expected}, found ${found}; open it again`,
    { path },
  );
}

/** Fills `target` from `position`. Throws FileChangedError when the file ends earlier. */
export function* readFully(
  read: ReadBytes,
  target: Uint8Array,
  position: number,
  path: string | undefined,
): Work<void> {
  let done = 0;
  while (done < target.byteLength) {
    const count = yield* read(target.subarray(done), position + done);
    if (count === 0) {
      throw truncatedError(path, position + target.byteLength, position + done);
    }
    done += count;
  }
}
