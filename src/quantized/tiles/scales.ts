/** Scales and the like as numbers, with a look at what no scale can be. */

import type { Dtype } from '../../header/dtype.js';
import { toFloat32 } from '../../tensor/float32/kernels.js';
import type { Tensor } from '../../tensor/tensor.js';
import { invalid } from '../plan/unsupported.js';

/** Decodes the items [first, first + into.length) of a tensor as numbers of a dtype, which has its width. */
export function decodeItems(tensor: Tensor, dtype: Dtype, first: number, into: Float32Array): void {
  const width = tensor.elementCount === 0 ? 0 : tensor.byteLength / tensor.elementCount;
  const bytes = tensor.bytes.subarray(first * width, (first + into.length) * width);
  toFloat32(dtype, bytes, into);
}

/**
 * Throws for a NaN, which would make a whole block NaN.
 *
 * @param gridColumns columns of the grid that the items belong to
 */
export function rejectNaN(
  weight: string,
  scale: string,
  items: Float32Array,
  first: number,
  gridColumns: number,
): void {
  // The sum of all is NaN when one is; infinities of both signs are looked at once more.
  let sum = 0;
  for (let i = 0; i < items.length; i++) sum += items[i] as number;
  if (!Number.isNaN(sum)) return;
  rejectItem(weight, scale, items.findIndex(Number.isNaN), first, gridColumns);
}

/** As above, for anything but finite numbers: sums of a rotation have no place for infinity. */
export function requireFinite(
  weight: string,
  scale: string,
  items: Float32Array,
  first: number,
  gridColumns: number,
): void {
  // Zero times any finite number.
  let sum = 0;
  for (let i = 0; i < items.length; i++) sum += (items[i] as number) * 0;
  if (sum === 0) return;
  const at = items.findIndex((item) => !Number.isFinite(item));
  rejectItem(weight, scale, at, first, gridColumns, String(items[at]));
}

/** As `rejectNaN`, for exponents: 255 is NaN. */
export function rejectNaNExponents(
  weight: string,
  scale: string,
  items: Uint8Array,
  first: number,
  gridColumns: number,
): void {
  rejectItem(weight, scale, items.indexOf(255), first, gridColumns);
}

function rejectItem(
  weight: string,
  scale: string,
  at: number,
  first: number,
  gridColumns: number,
  found = 'NaN',
): void {
  if (at === -1) return;
  const place = [Math.floor((first + at) / gridColumns), (first + at) % gridColumns];
  throw invalid(weight, `${JSON.stringify(scale)} is ${found} at [${place.join(', ')}]`);
}

/**
 * The group of every column.
 *
 * @throws QuantizationError for a group that is not there
 */
export function requireGroups(weight: string, tensor: Tensor, count: number): Int32Array {
  const groups = new Int32Array(tensor.bytes.slice().buffer);
  const at = groups.findIndex((group) => group < 0 || group >= count);
  if (at === -1) return groups;
  const message = `${JSON.stringify(tensor.name)} is ${groups[at]} at [${at}]; 0 to ${count - 1} allowed`;
  throw invalid(weight, message);
}

/** The bytes of a tensor as words of 32 bits; a copy where they are not aligned. */
export function wordsOf(bytes: Uint8Array): Int32Array {
  const { buffer, byteOffset, byteLength } = byteOffsetIsAligned(bytes) ? bytes : bytes.slice();
  return new Int32Array(buffer, byteOffset, byteLength >> 2);
}

function byteOffsetIsAligned({ byteOffset }: Uint8Array): boolean {
  return byteOffset % Int32Array.BYTES_PER_ELEMENT === 0;
}
