/** Makes any window of a strided tensor's bytes in C order, without making the rest. */

import type { Steps } from '../../platform/io/steps.js';
import { gather } from '../../tensor/gather.js';
import { CACHED_BYTE_LENGTH, cut } from '../../tensor/pieces.js';
import type { StorageBytes } from '../../tensor/storage/made.js';
import {
  type CopyPiece,
  extentOf,
  type StridedCopy,
  splitCopy,
  stridedCopy,
  windowOf,
} from '../../tensor/strided-copy.js';
import { readAhead, type StepFill } from './read-ahead.js';
import { isReading, readStrided } from './strided-reads.js';
import type { TensorLayout } from './tensor-layout.js';

/** Changes whole items in place. They begin at an aligned address of their buffer. */
export type Change = (items: Uint8Array) => void;

/** A view of a mapping costs nothing; but not all runtimes make one of any length. */
const MAX_VIEW_BYTE_LENGTH = 2 ** 30;

/** Runs of this length cost the same, whether a window has one of them or many. */
const LONG_FILL_BYTE_LENGTH = 64 * 1024;

/**
 * Fills windows of the tensor that the layout describes in the held bytes. Where neighbours lie far apart,
 * windows that follow one another come from longer ones.
 *
 * @param change changes whole items in place, such as their byte order
 */
export function stridedFill(held: StorageBytes, layout: TensorLayout, change?: Change): StepFill {
  const { itemByteLength, shape, strides, offset } = layout;
  const copy = stridedCopy(shape, strides, offset, itemByteLength);
  const gathered: StepFill = function* (target, position) {
    for (const piece of windowOf(copy, position, position + target.length)) {
      yield* copyPiece(held, piece, target);
    }
  };
  const fill = change === undefined ? gathered : changedItems(gathered, itemByteLength, change);
  if (!isScattered(copy)) return fill;
  return readAhead(fill, layout.byteLength, [...copy.loops.map(({ to }) => to), itemByteLength]);
}

/** Windows of what `fill` makes, after a change of whole items. */
function changedItems(fill: StepFill, itemByteLength: number, change: Change): StepFill {
  const fillItems: StepFill = function* (target, position) {
    yield* fill(target, position);
    for (const { begin, end } of cut(0, target.length, CACHED_BYTE_LENGTH)) {
      change(target.subarray(begin, end));
      yield;
    }
  };
  return function* (target, position) {
    const end = position + target.length;
    if ([position, end, target.byteOffset].every((at) => at % itemByteLength === 0)) {
      yield* fillItems(target, position);
      return;
    }
    // It begins or ends within an item, or lies where none could be changed as a number.
    const begin = position - (position % itemByteLength);
    const items = new Uint8Array(Math.ceil((end - begin) / itemByteLength) * itemByteLength);
    yield* fillItems(items, begin);
    target.set(items.subarray(position - begin, end - begin));
  };
}

/** Whether windows that follow one another go through the same part of the storage again and again. */
function isScattered({ loops, runByteLength }: StridedCopy): boolean {
  if (runByteLength >= LONG_FILL_BYTE_LENGTH) return false;
  return loops.some(
    ({ from }, at) => from > 0 && loops.slice(at + 1).some((inner) => inner.from > from),
  );
}

function* copyPiece(held: StorageBytes, piece: CopyPiece, target: Uint8Array): Steps<void> {
  const { storage, begin: start } = held;
  const { copy, targetByteOffset } = piece;
  if (isReading(storage)) {
    const byteOffset = start + copy.byteOffset;
    yield* readStrided(storage, { ...copy, byteOffset }, target, targetByteOffset);
    return;
  }
  for (const part of splitCopy(copy, MAX_VIEW_BYTE_LENGTH)) {
    const { begin, end } = extentOf(part.copy);
    const view = storage.window(start + begin, start + end);
    gather(part.copy, view, begin, target, targetByteOffset + part.targetByteOffset);
    yield;
  }
}
