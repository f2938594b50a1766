/**
 * Makes any window of a strided tensor's bytes in C order, without making the rest: the window is cut into
 * boxes of whole loops, and each box is copied from a view of the storage, or read.
 */

import type { Steps } from '../io/steps.js';
import type { StepFill, StorageBytes } from '../storage/made.js';
import { readAhead } from './read-ahead.js';
import { type CopyLoop, copyStrided } from './strided-copy.js';
import { isReading, readStrided } from './strided-reads.js';
import type { TensorLayout } from './tensor-layout.js';
import type { Change } from './value-changes.js';

/** A view of a mapping costs nothing; but not all runtimes make one of any length. */
const MAX_VIEW_BYTE_LENGTH = 2 ** 30;

/** Runs of this length cost the same, whether a window has one of them or many. */
const LONG_RUN_BYTE_LENGTH = 64 * 1024;

/** What is changed at once. A multiple of every item's length. */
const CHANGE_BYTE_LENGTH = 2 ** 20;

/** Part of a tensor: loops, outermost first, and where they start, in bytes. The result is dense. */
interface Box {
  readonly loops: readonly CopyLoop[];
  readonly from: number;
  readonly to: number;
}

/**
 * Fills windows of the tensor that the layout describes in the held bytes. Where neighbours lie far apart,
 * windows that follow one another come from longer ones.
 *
 * @param change changes whole items in place, such as their byte order
 */
export function stridedFill(held: StorageBytes, layout: TensorLayout, change?: Change): StepFill {
  const { itemByteLength } = layout;
  const loops = loopsOf(layout);
  const fillItems = function* (target: Uint8Array, first: number, end: number): Steps<void> {
    const from = layout.offset * itemByteLength;
    for (const box of boxesOf(loops, itemByteLength, first, end, from, 0)) {
      yield* copyBox(held, itemByteLength, box, target);
    }
    if (change === undefined) return;
    for (let at = 0; at < target.length; at += CHANGE_BYTE_LENGTH) {
      change(target.subarray(at, at + CHANGE_BYTE_LENGTH));
      yield;
    }
  };
  const fill: StepFill = function* (target, position) {
    const end = position + target.length;
    const first = Math.floor(position / itemByteLength);
    const last = Math.ceil(end / itemByteLength);
    if ([position, end, target.byteOffset].every((at) => at % itemByteLength === 0)) {
      yield* fillItems(target, first, last);
      return;
    }
    // It begins or ends within an item, or lies where none could be changed as a number.
    const items = new Uint8Array((last - first) * itemByteLength);
    yield* fillItems(items, first, last);
    const begin = position - first * itemByteLength;
    target.set(items.subarray(begin, begin + target.length));
  };
  if (!isScattered(loops, itemByteLength)) return fill;
  const units = loops.map(({ to }) => to);
  return readAhead(fill, layout.byteLength, units);
}

/** Whether windows that follow one another go through the same part of the storage again and again. */
function isScattered(loops: readonly CopyLoop[], itemByteLength: number): boolean {
  const last = loops.at(-1);
  if (last?.from === itemByteLength && last.count * itemByteLength >= LONG_RUN_BYTE_LENGTH) {
    return false;
  }
  return loops.some(
    ({ from }, at) => from > 0 && loops.slice(at + 1).some((inner) => inner.from > from),
  );
}

/** As few loops over the items as possible; `to` is in C order. */
function loopsOf({ itemByteLength, shape, strides }: TensorLayout): CopyLoop[] {
  const loops: CopyLoop[] = [];
  let to = itemByteLength;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const count = shape[axis] as number;
    if (count === 1) continue;
    const from = (strides[axis] as number) * itemByteLength;
    const inner = loops[0];
    if (inner !== undefined && from === inner.from * inner.count) {
      loops[0] = { ...inner, count: inner.count * count };
    } else {
      loops.unshift({ count, from, to });
    }
    to *= count;
  }
  return loops;
}

/**
 * The boxes of the items [first, end): rounds of the outermost loop that are whole, and before and after
 * them parts of a round, cut likewise. `from` and `to` are where the first round starts and where the first
 * item goes.
 */
function* boxesOf(
  loops: readonly CopyLoop[],
  itemByteLength: number,
  first: number,
  end: number,
  from: number,
  to: number,
): Generator<Box, void, void> {
  if (first >= end) return;
  const [loop, ...inner] = loops;
  if (loop === undefined) {
    yield { loops, from, to };
    return;
  }
  const itemsPerRound = loop.to / itemByteLength;
  const round = Math.ceil(first / itemsPerRound);
  const wholeEnd = Math.floor(end / itemsPerRound);
  const part = (index: number, begin: number, stop: number): Generator<Box, void, void> => {
    const at = index * itemsPerRound;
    const partTo = to + (begin - first) * itemByteLength;
    return boxesOf(inner, itemByteLength, begin - at, stop - at, from + index * loop.from, partTo);
  };
  const headEnd = Math.min(end, round * itemsPerRound);
  if (first < headEnd) yield* part(round - 1, first, headEnd);
  const whole = wholeEnd - round;
  if (whole > 0) {
    yield {
      loops: whole === 1 ? inner : [{ ...loop, count: whole }, ...inner],
      from: from + round * loop.from,
      to: to + (round * itemsPerRound - first) * itemByteLength,
    };
  }
  const tail = Math.max(round, wholeEnd) * itemsPerRound;
  if (tail < end && tail >= first) yield* part(Math.max(round, wholeEnd), tail, end);
}

function* copyBox(
  held: StorageBytes,
  itemByteLength: number,
  box: Box,
  target: Uint8Array,
): Steps<void> {
  const last = box.loops.at(-1);
  const isRun = last !== undefined && last.from === itemByteLength && last.to === itemByteLength;
  const runByteLength = isRun ? itemByteLength * last.count : itemByteLength;
  const loops = isRun ? box.loops.slice(0, -1) : box.loops;
  const { storage, begin } = held;
  if (isReading(storage)) {
    yield* readStrided(storage, runByteLength, loops, begin + box.from, target, box.to);
  } else {
    copyViews(held, runByteLength, { ...box, loops }, target);
    yield;
  }
}

/** Copies runs from views of the storage, cutting the loop that goes through it in the longest steps. */
function copyViews(
  held: StorageBytes,
  runByteLength: number,
  { loops, from, to }: Box,
  target: Uint8Array,
): void {
  const extent = loops.reduce((sum, loop) => sum + (loop.count - 1) * loop.from, runByteLength);
  if (extent <= MAX_VIEW_BYTE_LENGTH) {
    const position = held.begin + from;
    const view = held.storage.window(position, position + extent);
    copyStrided(runByteLength, loops, view, 0, target, to);
    return;
  }
  const run = { count: runByteLength, from: 1, to: 1 };
  const widest = loops.reduce((best, loop) => (loop.from > best.from ? loop : best), run);
  const spare = MAX_VIEW_BYTE_LENGTH - (extent - (widest.count - 1) * widest.from);
  const rounds = Math.max(1, 1 + Math.floor(spare / widest.from));
  for (let done = 0; done < widest.count; done += rounds) {
    const count = Math.min(rounds, widest.count - done);
    const cut = loops.flatMap((loop) =>
      loop !== widest ? [loop] : count === 1 ? [] : [{ ...loop, count }],
    );
    const box = { loops: cut, from: from + done * widest.from, to: to + done * widest.to };
    copyViews(held, widest === run ? count : runByteLength, box, target);
  }
}
