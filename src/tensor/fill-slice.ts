/** Slices of a computed tensor: gathered from the rows that contain them. */

import { gather } from './gather.js';
import type { SlicePlan } from './slice.js';
import { extentOf, splitCopy } from './strided-copy.js';

/** Most bytes of rows that are computed at once for a slice that needs some of their values. */
const WINDOW_BYTE_LENGTH = 2 ** 24;

/** Writes the rows from `first` on, as many as fit. */
type FillRows = (first: number, into: Uint8Array<ArrayBuffer>) => Promise<void>;

/** Fills `output` with the bytes of a slice of a tensor. */
export async function fillSlice(
  plan: SlicePlan,
  rowByteLength: number,
  output: Uint8Array<ArrayBuffer>,
  fill: FillRows,
): Promise<void> {
  const isRows = plan.byteOffset % rowByteLength === 0 && plan.byteLength % rowByteLength === 0;
  if (plan.contiguous && isRows) {
    await fill(plan.byteOffset / rowByteLength, output);
    return;
  }
  for (const { copy, targetByteOffset } of splitCopy(plan, WINDOW_BYTE_LENGTH)) {
    const { begin, end } = extentOf(copy);
    const first = Math.floor(begin / rowByteLength);
    const rows = new Uint8Array((Math.ceil(end / rowByteLength) - first) * rowByteLength);
    await fill(first, rows);
    gather(copy, rows, first * rowByteLength, output, targetByteOffset);
  }
}
