/**
 * Writes bytes to a file: from memory, or copied from other files, within the kernel where it can.
 * Positions and lengths are in bytes; a range may be written again. The caller owns the descriptors
 * and keeps them open until the work is done. Errors of writing name the target.
 */

import type { FileRange } from '../../work/byte-ranges.js';
import { addon } from '../addon/addon.js';
import { withoutFirst } from './byte-views.js';
import { truncatedError } from './opened-file.js';
import { type ReadFile, readAsync, writevAsync } from './pool-calls.js';
import { aboutFile, hasCode, systemError } from './system-errors.js';

/** A descriptor to write to, and the path for messages. */
export interface WrittenFile {
  readonly fd: number;
  readonly path: string;
}

/** A range of another file. */
export interface CopiedRange extends FileRange {
  readonly file: ReadFile;
}

/** Length of the buffer for bytes that the kernel does not copy. */
const BUFFER_BYTE_LENGTH = 4 * 2 ** 20;

/** Errors of a kernel that cannot copy between these two files. */
const REFUSALS: readonly string[] = [
  'ENOTSUP',
  'ENOSYS',
  'EXDEV',
  'EINVAL',
  'EPERM',
  'EACCES',
  'ETXTBSY',
];

/**
 * Writes the views one after the other: at most 1 GiB together, since some systems refuse 2 GiB, and
 * at most `MAX_VIEWS` of them. Their memory must stay until the promise settles.
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
    // A system that writes nothing would loop forever.
    if (bytesWritten === 0) throw systemError('EIO', 'write', target.path);
    left = withoutFirst(left, bytesWritten);
    at += bytesWritten;
  }
}

/**
 * Copies ranges to `targetPosition`, one after the other. The addon reads several into one buffer and
 * writes it at once, so these must be at most 1 024, and 16 MiB in all.
 *
 * @throws FileChangedError when a file ends before its range does
 */
export async function copyRanges(
  ranges: readonly CopiedRange[],
  target: WrittenFile,
  targetPosition: number,
): Promise<void> {
  let gathered = 0;
  if (ranges.length > 1) {
    const gathering = addon()?.gatherRangesAsync(numbersOf(ranges), target.fd, targetPosition);
    // The copy below fails, too, with an error that names the file.
    gathered = (await gathering?.catch(() => 0)) ?? 0;
  }
  let begin = 0;
  for (const { file, position, byteLength } of ranges) {
    const done = Math.min(Math.max(gathered - begin, 0), byteLength);
    const rest = { file, position: position + done, byteLength: byteLength - done };
    if (rest.byteLength > 0) await copyRange(rest, target, targetPosition + begin + done);
    begin += byteLength;
  }
}

/** Descriptor, position and length of every range. */
function numbersOf(ranges: readonly CopiedRange[]): Float64Array {
  const numbers = new Float64Array(3 * ranges.length);
  for (const [i, { file, position, byteLength }] of ranges.entries()) {
    numbers.set([file.fd, position, byteLength], 3 * i);
  }
  return numbers;
}

/** Copies a range within the kernel, and the part that the kernel does not copy through a buffer. */
async function copyRange(
  { file, position, byteLength }: CopiedRange,
  target: WrittenFile,
  targetPosition: number,
): Promise<void> {
  const kernel = addon();
  let done = 0;
  while (kernel !== undefined && done < byteLength) {
    const [from, to] = [position + done, targetPosition + done];
    const count = await kernel
      .copyFileRangeAsync(file.fd, from, target.fd, to, byteLength - done)
      .catch((error: unknown) => {
        if (hasCode(error, REFUSALS)) return 0;
        throw aboutFile(error, target.path);
      });
    // The source has ended, or its file system says so by mistake. Reading shows which.
    if (count === 0) break;
    done += count;
  }
  if (done === byteLength) return;
  const buffer = new Uint8Array(Math.min(byteLength - done, BUFFER_BYTE_LENGTH));
  // Not by `cut`: a read may return fewer bytes than requested.
  while (done < byteLength) {
    const length = Math.min(byteLength - done, buffer.byteLength);
    const { bytesRead } = await readAsync(file, buffer, 0, length, position + done);
    if (bytesRead === 0) throw truncatedError(file.path, position + byteLength, position + done);
    await writeViews(target, [buffer.subarray(0, bytesRead)], targetPosition + done);
    done += bytesRead;
  }
}
