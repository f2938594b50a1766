/**
 * Bytes into a file: from memory, or from another file, within the kernel where it can. Positions
 * and lengths are bytes; a range may be written again. The descriptors are the caller's, who keeps
 * them open until it is done. Errors of writing name the target.
 */

import { read, readSync, writev, writevSync } from 'node:fs';
import { promisify } from 'node:util';
import { addon } from '../addon/addon.js';
import { withoutFirst } from './byte-views.js';
import { cutShort, type ReadFile } from './opened-file.js';
import { aboutFile, hasCode, systemError } from './system-errors.js';

/** A descriptor to write to, and the path for messages. */
export interface WrittenFile {
  readonly fd: number;
  readonly path: string;
}

/** One write call takes at most this: some systems refuse lengths of 2 GiB and above. */
const MAX_WRITE_BYTE_LENGTH = 2 ** 30;

/** Length of the buffer through which bytes go where the kernel does not copy them. */
const BUFFER_BYTE_LENGTH = 4 * 2 ** 20;

/** The kernel's ways to say that it does not copy between these two files. */
const REFUSALS: readonly string[] = [
  'ENOTSUP',
  'ENOSYS',
  'EXDEV',
  'EINVAL',
  'EPERM',
  'EACCES',
  'ETXTBSY',
];

const readAsync = promisify(read);
const writevAsync = promisify(writev);

/** What is left of the views; a system that writes nothing would be asked for ever. */
function afterWrite(
  target: WrittenFile,
  views: readonly Uint8Array[],
  written: number,
): Uint8Array[] {
  if (written === 0) throw systemError('EIO', 'write', target.path);
  return withoutFirst(views, written);
}

/**
 * Writes the views one after the other, 1 GiB in all and `MAX_VIEWS` of them at most. Their memory
 * must stay until the promise settles.
 */
export async function writeViews(
  target: WrittenFile,
  views: readonly Uint8Array[],
  position: number,
): Promise<void> {
  let at = position;
  for (let left = withoutFirst(views, 0); left.length > 0; ) {
    let bytesWritten: number;
    try {
      ({ bytesWritten } = await writevAsync(target.fd, left, at));
    } catch (error) {
      throw aboutFile(error, target.path);
    }
    left = afterWrite(target, left, bytesWritten);
    at += bytesWritten;
  }
}

/** As `writeViews`, on this thread. */
export function writeViewsSync(
  target: WrittenFile,
  views: readonly Uint8Array[],
  position: number,
): void {
  let at = position;
  for (let left = withoutFirst(views, 0); left.length > 0; ) {
    let bytesWritten: number;
    try {
      bytesWritten = writevSync(target.fd, left, at);
    } catch (error) {
      throw aboutFile(error, target.path);
    }
    left = afterWrite(target, left, bytesWritten);
    at += bytesWritten;
  }
}

/** Parts of what one call can write, each with its offset. */
function* partsOf(bytes: Uint8Array): Generator<[Uint8Array, number], void, void> {
  for (let offset = 0; offset < bytes.byteLength; offset += MAX_WRITE_BYTE_LENGTH) {
    yield [bytes.subarray(offset, offset + MAX_WRITE_BYTE_LENGTH), offset];
  }
}

/** Writes all bytes, of any length. Their memory must stay until the promise settles. */
export async function writeFully(
  target: WrittenFile,
  bytes: Uint8Array,
  position: number,
): Promise<void> {
  for (const [part, offset] of partsOf(bytes)) await writeViews(target, [part], position + offset);
}

/** As `writeFully`, on this thread. */
export function writeFullySync(target: WrittenFile, bytes: Uint8Array, position: number): void {
  for (const [part, offset] of partsOf(bytes)) writeViewsSync(target, [part], position + offset);
}

/**
 * A refusal counts as nothing copied, and so does the end of the source: some file systems say so
 * by mistake, and reading it tells.
 */
function nothingCopied(error: unknown, target: WrittenFile): 0 {
  if (hasCode(error, REFUSALS)) return 0;
  throw aboutFile(error, target.path);
}

/**
 * Copies `byteLength` bytes of `source` from `position` to `targetPosition` of `target`. What the
 * kernel does not copy is read and written through a buffer of 4 MiB.
 *
 * @throws FileChangedError when the source ends before
 */
export async function copyRange(
  source: ReadFile,
  position: number,
  target: WrittenFile,
  targetPosition: number,
  byteLength: number,
): Promise<void> {
  const native = addon();
  let done = 0;
  while (native !== undefined && done < byteLength) {
    const from = position + done;
    const to = targetPosition + done;
    const count = await native
      .copyFileRangeAsync(source.fd, from, target.fd, to, byteLength - done)
      .catch((error: unknown) => nothingCopied(error, target));
    if (count === 0) break;
    done += count;
  }
  if (done === byteLength) return;
  const buffer = new Uint8Array(Math.min(byteLength - done, BUFFER_BYTE_LENGTH));
  while (done < byteLength) {
    const length = Math.min(byteLength - done, buffer.byteLength);
    const { bytesRead } = await readAsync(source.fd, buffer, 0, length, position + done);
    if (bytesRead === 0) throw cutShort(source.path, position + byteLength, position + done);
    await writeViews(target, [buffer.subarray(0, bytesRead)], targetPosition + done);
    done += bytesRead;
  }
}

/** As `copyRange`, on this thread. */
export function copyRangeSync(
  source: ReadFile,
  position: number,
  target: WrittenFile,
  targetPosition: number,
  byteLength: number,
): void {
  const native = addon();
  let done = 0;
  while (native !== undefined && done < byteLength) {
    const from = position + done;
    const to = targetPosition + done;
    let count = 0;
    try {
      count = native.copyFileRange(source.fd, from, target.fd, to, byteLength - done);
    } catch (error) {
      nothingCopied(error, target);
    }
    if (count === 0) break;
    done += count;
  }
  if (done === byteLength) return;
  const buffer = new Uint8Array(Math.min(byteLength - done, BUFFER_BYTE_LENGTH));
  while (done < byteLength) {
    const length = Math.min(byteLength - done, buffer.byteLength);
    const bytesRead = readSync(source.fd, buffer, 0, length, position + done);
    if (bytesRead === 0) throw cutShort(source.path, position + byteLength, position + done);
    writeViewsSync(target, [buffer.subarray(0, bytesRead)], targetPosition + done);
    done += bytesRead;
  }
}
