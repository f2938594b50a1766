/** Fills bytes of computed values from any position on, by computing whole units, such as rows. */

import { cut } from '../work/byte-ranges.js';

/** Alignment at which values of every dtype that is computed can be written in place. */
const ALIGNMENT = 4;

/** Computes `count` units from `first` on into `bytes`, which are as long. */
export type FillUnits = (first: number, count: number, bytes: Uint8Array) => void;

/** Units to compute, and how many at once. */
export interface Units {
  readonly byteLength: number;
  readonly atOnce: number;
}

/**
 * Fills `target` with the bytes from `position` on: in place where units lie whole and aligned in it, else through new
 * memory.
 */
export function fillUnits(
  target: Uint8Array,
  position: number,
  { byteLength, atOnce }: Units,
  fill: FillUnits,
): void {
  if (target.length === 0) return;
  const end = position + target.length;
  const units = cut(Math.floor(position / byteLength), Math.ceil(end / byteLength), atOnce);
  for (const { begin: first, end: last } of units) {
    const [begin, length] = [first * byteLength, (last - first) * byteLength];
    const isAligned = (target.byteOffset + begin - position) % ALIGNMENT === 0;
    if (isAligned && begin >= position && begin + length <= end) {
      fill(first, last - first, target.subarray(begin - position, begin - position + length));
      continue;
    }
    const bytes = new Uint8Array(length);
    fill(first, last - first, bytes);
    const [from, to] = [Math.max(begin, position), Math.min(begin + length, end)];
    target.set(bytes.subarray(from - begin, to - begin), from - position);
  }
}
