/** Slices of a logical tensor: gathered from the rows in which they lie. */

import { gather } from '../tensor/gather.js';
import type { SlicePlan } from '../tensor/slice.js';
import { extentOf, splitCopy } from '../tensor/strided-copy.js';

/** Most bytes of rows that are computed at once for a slice that needs some of their values. */
const WINDOW_BYTE_LENGTH = 2 ** 24;

/** Writes the rows from `first` on, as many as fit. */
type FillRows = (first: number, into: Float32Array) => Promise<void>;

/** Fills `output` with the slice of a tensor whose rows have `columns` values. */
export async function fillSlice(
  plan: SlicePlan,
  columns: number,
  output: Float32Array,
  fill: FillRows,
): Promise<void> {
  const rowByteLength = columns * Float32Array.BYTES_PER_ELEMENT;
  const isRows = plan.byteOffset % rowByteLength === 0 && plan.byteLength % rowByteLength === 0;
  if (plan.contiguous && isRows) {
    await fill(plan.byteOffset / rowByteLength, output);
    return;
  }
  const bytes = new Uint8Array(output.buffer, output.byteOffset, output.byteLength);
  for (const { copy, targetByteOffset } of splitCopy(plan, WINDOW_BYTE_LENGTH)) {
    const { begin, end } = extentOf(copy);
    const first = Math.floor(begin / rowByteLength);
    const rows = new Float32Array((Math.ceil(end / rowByteLength) - first) * columns);
    await fill(first, rows);
    gather(copy, new Uint8Array(rows.buffer), first * rowByteLength, bytes, targetByteOffset);
  }
}
