/** Makes any window of a strided tensor's bytes in C order, with few reads where the storage has no memory. */

import { gather, ONCE } from '../../tensor/gather.js';
import type { StorageBytes } from '../../tensor/storage/computed.js';
import type { Storage } from '../../tensor/storage/storage.js';
import {
  type CopyPiece,
  extentOf,
  type StridedCopy,
  type StridedLoop,
  splitCopy,
  stridedCopy,
  windowOf,
} from '../../tensor/strided-copy.js';
import { CACHED_BYTE_LENGTH, cut } from '../../work/byte-ranges.js';
import type { Work } from '../../work/work.js';
import { readAhead, type StepFill } from './read-ahead.js';
import type { TensorLayout } from './tensor-layout.js';

/** A read costs more than copying this many bytes: gaps up to this length are read along. */
const MAX_STRIDED_GAP_BYTE_LENGTH = 8 * 1024;

/** From this length on, a run is read right into its place in the target. */
const LONG_READ_BYTE_LENGTH = 4096;

/** Changes whole items in place. The items begin at an aligned address. */
export type Change = (items: Uint8Array) => void;

/** Longest view of a mapping: a view is free, but some runtimes limit its length. */
const MAX_VIEW_BYTE_LENGTH = 2 ** 30;

/** From this length on, a run costs the same in a short window as in a long one. */
const LONG_FILL_BYTE_LENGTH = 64 * 1024;

/**
 * Fills windows of the tensor that the layout describes in the held bytes. Where neighbours lie far apart,
 * consecutive windows come from longer ones.
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
    // The window begins or ends within an item, or is misaligned for its items.
    const begin = position - (position % itemByteLength);
    const items = new Uint8Array(Math.ceil((end - begin) / itemByteLength) * itemByteLength);
    yield* fillItems(items, begin);
    target.set(items.subarray(position - begin, end - begin));
  };
}

/** Whether consecutive windows go through the same part of the storage again and again. */
function isScattered({ loops, runByteLength }: StridedCopy): boolean {
  if (runByteLength >= LONG_FILL_BYTE_LENGTH) return false;
  return loops.some(
    ({ from }, at) => from > 0 && loops.slice(at + 1).some((inner) => inner.from > from),
  );
}

function* copyPiece(held: StorageBytes, piece: CopyPiece, target: Uint8Array): Work<void> {
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

/** A storage that copies into memory of the caller. */
type ReadingStorage = Storage & Required<Pick<Storage, 'readInto'>>;

/** Whether a storage has no separate memory. */
function isReading(storage: Storage): storage is ReadingStorage {
  return storage.readInto !== undefined;
}

/** Shared by all reads: its content is not needed between two steps. */
let scratch: Uint8Array | undefined;

/**
 * Carries out a copy with ascending positions in the storage. A step reads one run, or one block of the shared
 * memory, and copies it to its places.
 */
function* readStrided(
  storage: ReadingStorage,
  { runByteLength, loops, byteOffset: position }: StridedCopy,
  target: Uint8Array,
  to: number,
): Work<void> {
  const bySteps = loops.toSorted((a, b) => a.from - b.from);
  // The inner loops with neighbouring rounds make a stretch, which is read as a whole. Unlike `nearByteLength` of
  // `remote/fetch-plan`, which goes by nesting, this goes by strides; a stretch fits into the processor's cache.
  let stretch = runByteLength;
  const inner = new Set<StridedLoop>();
  for (const loop of bySteps) {
    const longer = stretch + (loop.count - 1) * loop.from;
    if (loop.from - stretch > MAX_STRIDED_GAP_BYTE_LENGTH || longer > CACHED_BYTE_LENGTH) break;
    stretch = longer;
    inner.add(loop);
  }
  const outer = bySteps.filter((loop) => !inner.has(loop));
  if (inner.size === 0 && (outer.length === 0 || runByteLength >= LONG_READ_BYTE_LENGTH)) {
    for (const { from, to: at } of rounds(outer, position, to)) {
      storage.readInto(target.subarray(at, at + runByteLength), from);
      yield;
    }
    return;
  }
  const [batched = ONCE, ...others] = outer;
  // Neighbouring stretches are read together; distant ones one by one, side by side in memory.
  const isNear = batched.from - stretch <= MAX_STRIDED_GAP_BYTE_LENGTH;
  const pitch = isNear ? batched.from : stretch;
  const most = Math.min(
    batched.count,
    1 + Math.max(0, Math.floor((CACHED_BYTE_LENGTH - stretch) / pitch)),
  );
  for (const { from, to: at } of rounds(others, position, to)) {
    for (const { begin: done, end } of cut(0, batched.count, most)) {
      const count = end - done;
      const begin = from + done * batched.from;
      scratch ??= new Uint8Array(CACHED_BYTE_LENGTH);
      if (isNear) {
        storage.readInto(scratch.subarray(0, stretch + (count - 1) * pitch), begin);
      } else {
        for (let i = 0; i < count; i++) {
          const part = scratch.subarray(i * stretch, (i + 1) * stretch);
          storage.readInto(part, begin + i * batched.from);
        }
      }
      const here = loops.flatMap((loop) => {
        if (loop === batched) return count === 1 ? [] : [{ count, from: pitch, to: loop.to }];
        return inner.has(loop) ? [loop] : [];
      });
      const byteLength = here.reduce((product, loop) => product * loop.count, runByteLength);
      const copy = { byteLength, byteOffset: 0, runByteLength, loops: here };
      gather(copy, scratch, 0, target, at + done * batched.to);
      yield;
    }
  }
}

/** Yields the start of every round of the loops, the last of them outermost. */
function* rounds(
  loops: readonly StridedLoop[],
  from: number,
  to: number,
): Generator<{ readonly from: number; readonly to: number }, void, void> {
  const loop = loops.at(-1);
  if (loop === undefined) {
    yield { from, to };
    return;
  }
  const inner = loops.slice(0, -1);
  for (let i = 0; i < loop.count; i++) {
    yield* rounds(inner, from + i * loop.from, to + i * loop.to);
  }
}
