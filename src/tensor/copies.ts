/** Copies bytes of a storage into new memory. All functions throw when the file changed meanwhile. */

import { cut } from '../work/byte-ranges.js';
import { yieldIfDue } from '../work/yielding.js';
import { gather } from './gather.js';
import type { StorageRange } from './storage-range.js';
import { extentOf, type StridedCopy, splitCopy } from './strided-copy.js';

/** Bytes read at once to gather a slice of a tensor that has no buffer yet. */
const GATHER_WINDOW_BYTE_LENGTH = 2 ** 26;

/** Bytes copied between other events: about a millisecond of computing. */
const COPY_WINDOW_BYTE_LENGTH = 2 ** 20;

/** Copies `byteLength` bytes, from byte `offset` of the source on. */
export function copyFrom(
  source: StorageRange,
  offset: number,
  byteLength: number,
): Uint8Array<ArrayBuffer> {
  source.verify();
  const target = source.allocate(byteLength);
  source.copyTo(target, offset);
  source.verify();
  return target;
}

/** As above, between other events, for bytes that take time to compute: whole rows at a time. */
export async function copyFromYielding(
  source: StorageRange,
  offset: number,
  { byteLength, rowByteLength }: { readonly byteLength: number; readonly rowByteLength: number },
  signal: AbortSignal | undefined,
): Promise<Uint8Array<ArrayBuffer>> {
  source.verify();
  const target = source.allocate(byteLength);
  const rows = Math.max(1, Math.floor(COPY_WINDOW_BYTE_LENGTH / Math.max(rowByteLength, 1)));
  for (const { begin, end } of cut(0, byteLength, Math.max(1, rows * rowByteLength))) {
    await yieldIfDue();
    signal?.throwIfAborted();
    source.copyTo(target.subarray(begin, end), offset + begin);
  }
  source.verify();
  return target;
}

/** Gathers the bytes that a plan selects from the tensor at byte `offset` of the source. */
export function gatherFrom(
  source: StorageRange,
  offset: number,
  plan: StridedCopy,
): Uint8Array<ArrayBuffer> {
  const target = source.allocate(plan.byteLength);
  if (plan.byteLength === 0) return target;
  if (source.isShareable) {
    const { buffer, byteOffset } = source.resolve();
    const { begin, end } = extentOf(plan);
    gather(plan, new Uint8Array(buffer, byteOffset + offset + begin, end - begin), begin, target);
  } else {
    for (const { copy, targetByteOffset } of splitCopy(plan, GATHER_WINDOW_BYTE_LENGTH)) {
      const { begin, end } = extentOf(copy);
      const window = source.window(offset + begin, offset + end);
      gather(copy, window, begin, target, targetByteOffset);
    }
  }
  source.verify();
  return target;
}
