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

/** Units to compute, and their memory. */
export interface UnitsToFill {
  readonly first: number;
  readonly count: number;
  readonly bytes: Uint8Array;
}

/**
 * Yields the units that have the bytes of `target` from `position` on, each to be computed before the next is
 * requested: in place where `target` has all of it, aligned; else in new memory, of which the right part is copied.
 */
export function* unitsToFill(
  target: Uint8Array,
  position: number,
  { byteLength, atOnce }: Units,
): Generator<UnitsToFill, void, void> {
  if (target.length === 0) return;
  const end = position + target.length;
  const units = cut(Math.floor(position / byteLength), Math.ceil(end / byteLength), atOnce);
  for (const { begin: first, end: last } of units) {
    const count = last - first;
    const [begin, length] = [first * byteLength, count * byteLength];
    const isAligned = (target.byteOffset + begin - position) % ALIGNMENT === 0;
    if (isAligned && begin >= position && begin + length <= end) {
      const bytes = target.subarray(begin - position, begin - position + length);
      yield { first, count, bytes };
      continue;
    }
    const bytes = new Uint8Array(length);
    yield { first, count, bytes };
    const [from, to] = [Math.max(begin, position), Math.min(begin + length, end)];
    target.set(bytes.subarray(from - begin, to - begin), from - position);
  }
}

/** Fills `target` with the bytes from `position` on. */
export function fillUnits(
  target: Uint8Array,
  position: number,
  units: Units,
  fill: FillUnits,
): void {
  const [first, count] = [position / units.byteLength, target.length / units.byteLength];
  // Whole units, such as a row, need no generator.
  const isWhole = Number.isInteger(first) && Number.isInteger(count) && count > 0;
  if (isWhole && count <= units.atOnce && target.byteOffset % ALIGNMENT === 0) {
    fill(first, count, target);
    return;
  }
  for (const { first, count, bytes } of unitsToFill(target, position, units)) {
    fill(first, count, bytes);
  }
}
