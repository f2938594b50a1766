/** Copies bytes between two strided places in memory, each in an order of its own. */

/** One loop of a copy: what one round adds to the two positions, in bytes. */
export interface CopyLoop {
  /** Number of rounds, at least 2. */
  readonly count: number;
  readonly from: number;
  readonly to: number;
}

/**
 * A transposed matrix is copied in squares of this many bytes: its rows are read over columns of the other,
 * and a square of both fits into the cache.
 */
const TILE_BYTE_LENGTH = 128;

/** From this many bytes per run on, a call of `TypedArray.set` is faster than a loop. */
const LONG_RUN_BYTE_LENGTH = 128;

const ONCE: CopyLoop = { count: 1, from: 0, to: 0 };

type Words = Uint8Array | Uint16Array | Uint32Array;

type WordsConstructor = new (buffer: ArrayBufferLike, byteOffset: number, length: number) => Words;

/**
 * Copies units of `unitByteLength` bytes. The first is at `sourceAt` and goes to `targetAt`, the others where
 * the nested loops lead: outermost first, as the target sees it.
 */
export function copyStrided(
  unitByteLength: number,
  loops: readonly CopyLoop[],
  source: Uint8Array,
  sourceAt: number,
  target: Uint8Array,
  targetAt: number,
): void {
  const outside = [...loops];
  // The inner one writes side by side, the one around it reads so if any does.
  const inner = outside.pop() ?? ONCE;
  const nearest = outside.reduce(
    (best, loop, at) => (loop.from <= (outside[best] as CopyLoop).from ? at : best),
    0,
  );
  const [outer = ONCE] = outside.splice(nearest, 1);
  const copy = planeCopier(unitByteLength, outer, inner, source, target, [
    source.byteOffset,
    sourceAt,
    target.byteOffset,
    targetAt,
    ...loops.flatMap(({ from, to }) => [from, to]),
  ]);
  const visit = (depth: number, from: number, to: number): void => {
    const loop = outside[depth];
    if (loop === undefined) {
      copy(from, to);
      return;
    }
    for (let i = 0; i < loop.count; i++) visit(depth + 1, from + i * loop.from, to + i * loop.to);
  };
  visit(0, sourceAt, targetAt);
}

/** Copies what the two innermost loops lead to, from and to these positions in bytes. */
type PlaneCopier = (from: number, to: number) => void;

function planeCopier(
  unitByteLength: number,
  outer: CopyLoop,
  inner: CopyLoop,
  source: Uint8Array,
  target: Uint8Array,
  positions: readonly number[],
): PlaneCopier {
  if (unitByteLength >= LONG_RUN_BYTE_LENGTH) {
    return (from, to) => {
      for (let i = 0; i < outer.count; i++) {
        for (let j = 0; j < inner.count; j++) {
          const begin = from + i * outer.from + j * inner.from;
          target.set(
            source.subarray(begin, begin + unitByteLength),
            to + i * outer.to + j * inner.to,
          );
        }
      }
    };
  }
  // The widest words to which everything is aligned; integers keep bit patterns.
  const isAligned = (width: number): boolean =>
    [unitByteLength, ...positions].every((position) => position % width === 0);
  const width = isAligned(4) ? 4 : isAligned(2) ? 2 : 1;
  const Type: WordsConstructor = width === 4 ? Uint32Array : width === 2 ? Uint16Array : Uint8Array;
  const words = ({ buffer, byteOffset, length }: Uint8Array): Words =>
    new Type(buffer, byteOffset, Math.floor(length / width));
  const [fromWords, toWords] = [words(source), words(target)];
  const unit = unitByteLength / width;
  const tile = Math.max(1, Math.floor(TILE_BYTE_LENGTH / unitByteLength));
  // Rounds that read and write in the same order need no squares.
  const innerTile = outer.from < inner.from ? tile : inner.count;
  const [outerFrom, outerTo] = [outer.from / width, outer.to / width];
  const [innerFrom, innerTo] = [inner.from / width, inner.to / width];
  return (from, to) => {
    for (let i = 0; i < outer.count; i += tile) {
      for (let j = 0; j < inner.count; j += innerTile) {
        copyTile(
          fromWords,
          from / width + i * outerFrom + j * innerFrom,
          outerFrom,
          innerFrom,
          toWords,
          to / width + i * outerTo + j * innerTo,
          outerTo,
          innerTo,
          Math.min(tile, outer.count - i),
          Math.min(innerTile, inner.count - j),
          unit,
        );
      }
    }
  };
}

function copyTile(
  from: Words,
  fromAt: number,
  outerFrom: number,
  innerFrom: number,
  to: Words,
  toAt: number,
  outerTo: number,
  innerTo: number,
  outerCount: number,
  innerCount: number,
  unit: number,
): void {
  for (let i = 0; i < outerCount; i++) {
    let read = fromAt + i * outerFrom;
    let written = toAt + i * outerTo;
    if (unit === 1) {
      for (let j = 0; j < innerCount; j++) {
        to[written] = from[read] as number;
        read += innerFrom;
        written += innerTo;
      }
      continue;
    }
    for (let j = 0; j < innerCount; j++) {
      for (let k = 0; k < unit; k++) to[written + k] = from[read + k] as number;
      read += innerFrom;
      written += innerTo;
    }
  }
}
