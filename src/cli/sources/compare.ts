/** Compares the values of two tensors of one shape. */

import { Buffer } from 'node:buffer';
import type { Tensor } from '../../index.js';
import type { LogicalTensor, RowBlock } from '../../quantized.js';
import { cut } from '../../tensor/pieces.js';
import type { LongWork } from './long-work.js';
import { valueNumbers, valueWindows } from './values.js';

/** Bytes to compare at a time. */
const WINDOW = 2 ** 22;

/** Elements to add up at a time: one NaN or infinity among them slows all of them. */
const BLOCK = 2 ** 12;

/** Differences of two tensors; C64 counts real and imaginary parts separately. */
export interface ValueDifference {
  readonly elements: number;
  /** Number of different values. Two NaN are equal, and so are 0 and -0. */
  readonly differing: number;
  /** Greatest absolute error where both values are numbers; null without such values. */
  readonly maxError: number | null;
  /** ‖a − b‖ / ‖a‖ of the values that are finite in both; null if the first side has only zeros. */
  readonly relative: number | null;
  /** Cosine similarity of the values that are finite in both; null if one side has only zeros. */
  readonly cosine: number | null;
}

/** Whether two tensors of one dtype and shape have the same bytes. */
export async function haveSameBytes(a: Tensor, b: Tensor, work: LongWork): Promise<boolean> {
  const others = b.chunks({ maxByteLength: WINDOW });
  for (const chunk of a.chunks({ maxByteLength: WINDOW })) {
    const { value } = others.next();
    if (Buffer.compare(chunk, value as Uint8Array) !== 0) return false;
    await work.did(chunk.length);
  }
  return true;
}

function isBigInteger({ dtype }: Tensor): boolean {
  return dtype === 'I64' || dtype === 'U64';
}

/** Sums over pairs of values. */
interface Sums {
  differing: number;
  /** Pairs that have an error. */
  compared: number;
  maxError: number;
  squares: number;
  dot: number;
  squaresA: number;
  squaresB: number;
}

/** Values of both tensors at the same places. */
export interface ValuePairs {
  readonly x: ArrayLike<number>;
  readonly y: ArrayLike<number>;
  /** How many that are equal as numbers differ all the same. */
  readonly hidden: number;
}

/** Adds the pairs [begin, end). */
function addPairs(
  sums: Sums,
  x: ArrayLike<number>,
  y: ArrayLike<number>,
  begin: number,
  end: number,
): void {
  let [differing, maxError, squares, dot, squaresA, squaresB] = [0, 0, 0, 0, 0, 0];
  for (let i = begin; i < end; i++) {
    const p = x[i] as number;
    const q = y[i] as number;
    const error = Math.abs(p - q);
    if (error !== 0) {
      differing++;
      if (error > maxError) maxError = error;
      squares += error * error;
    }
    dot += p * q;
    squaresA += p * p;
    squaresB += q * q;
  }
  // An infinity or NaN among the values makes the sums infinite or NaN.
  if (!Number.isFinite(squaresA + squaresB)) {
    addUnusualPairs(sums, x, y, begin, end);
    return;
  }
  sums.differing += differing;
  sums.compared += end - begin;
  sums.maxError = Math.max(sums.maxError, maxError);
  sums.squares += squares;
  sums.dot += dot;
  sums.squaresA += squaresA;
  sums.squaresB += squaresB;
}

/** Adds the pairs [begin, end) when some are NaN or infinite: five times as slow. */
function addUnusualPairs(
  sums: Sums,
  x: ArrayLike<number>,
  y: ArrayLike<number>,
  begin: number,
  end: number,
): void {
  for (let i = begin; i < end; i++) {
    const p = x[i] as number;
    const q = y[i] as number;
    if (p !== q && !(Number.isNaN(p) && Number.isNaN(q))) sums.differing++;
    const error = Math.abs(p - q);
    // Skips NaN and equal infinities.
    if (!Number.isNaN(error)) {
      sums.compared++;
      if (error > sums.maxError) sums.maxError = error;
    }
    if (Number.isFinite(p) && Number.isFinite(q)) {
      sums.squares += error * error;
      sums.dot += p * q;
      sums.squaresA += p * p;
      sums.squaresB += q * q;
    }
  }
}

/** The values of two tensors of any dtypes. */
export async function* tensorPairs(
  a: Tensor,
  b: Tensor,
  work: LongWork,
): AsyncGenerator<ValuePairs> {
  const areBig = isBigInteger(a) && isBigInteger(b);
  for (const [partA, partB] of valueWindows(a, b)) {
    const [x, y] = [valueNumbers(partA), valueNumbers(partB)];
    // Rounded to doubles, different integers of 64 bits can be equal.
    yield { x, y, hidden: areBig ? hiddenDifferences(partA, partB, x, y) : 0 };
    await work.did(partA.byteLength);
  }
}

/** The values of two logical tensors, as float32. */
export async function* logicalPairs(
  a: LogicalTensor,
  b: LogicalTensor,
  signal: AbortSignal,
  work: LongWork,
): AsyncGenerator<ValuePairs> {
  const others = b.rowBlocks({ signal });
  try {
    for await (const { values } of a.rowBlocks({ signal })) {
      const { value } = await others.next();
      yield { x: values, y: (value as RowBlock).values, hidden: 0 };
      await work.did((a.info.byteLength * values.length) / a.elementCount);
    }
  } finally {
    await others.return();
  }
}

/** Compares values. */
export async function compareValues(pairs: AsyncIterable<ValuePairs>): Promise<ValueDifference> {
  const sums: Sums = {
    ...{ differing: 0, compared: 0, maxError: 0 },
    ...{ squares: 0, dot: 0, squaresA: 0, squaresB: 0 },
  };
  let elements = 0;
  for await (const { x, y, hidden } of pairs) {
    elements += x.length;
    for (const { begin, end } of cut(0, x.length, BLOCK)) addPairs(sums, x, y, begin, end);
    sums.differing += hidden;
  }
  const { differing, compared, maxError, squares, dot, squaresA, squaresB } = sums;
  const norms = Math.sqrt(squaresA) * Math.sqrt(squaresB);
  return {
    ...{ elements, differing, maxError: compared === 0 ? null : maxError },
    relative: squaresA === 0 ? null : Math.sqrt(squares / squaresA),
    cosine: norms === 0 ? null : Math.min(1, Math.max(-1, dot / norms)),
  };
}

function hiddenDifferences(
  a: Tensor,
  b: Tensor,
  x: ArrayLike<number>,
  y: ArrayLike<number>,
): number {
  const [exactA, exactB] = [a.data, b.data] as unknown as [BigInt64Array, BigInt64Array];
  let count = 0;
  for (let i = 0; i < x.length; i++) {
    if (x[i] === y[i] && exactA[i] !== exactB[i]) count++;
  }
  return count;
}
