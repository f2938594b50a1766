/** Compares the values of two tensors of one shape. */

import { argumentRangeError, requireOptions } from '../../errors/arguments.js';
import { TRANSFER_OPTIONS, type TransferOptions } from '../../platform/transfer/transfer.js';
import type { LogicalTensor } from '../../quantized/logical-tensor.js';
import { cut } from '../../tensor/pieces.js';
import type { Tensor } from '../../tensor/tensor.js';
import { alikeWindows, requireTensor, type SliceableTensor } from './tensor-values.js';

/** Elements to add up at a time: one NaN or infinity among them slows all of them. */
const BLOCK = 2 ** 12;

/** Differences of two tensors; C64 counts real and imaginary parts separately. */
export interface TensorDifference {
  /** Values of one side. */
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

function isBigInteger({ dtype }: Tensor): boolean {
  return dtype === 'I64' || dtype === 'U64';
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

/**
 * Compares the values of two tensors of one shape, of any dtypes: both stored ones, or both logical ones. As numbers:
 * equal values of different dtypes are the same.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for different shapes
 * @throws As {@link tensorValues}
 *
 * @example
 * ```ts
 * const embed = safeOpen('model.safetensors').getTensor('embed.weight');
 * const { differing, maxError } = await compareTensors(embed.slice(0), embed.slice(1));
 * console.log(differing, maxError); // → 4 1
 * ```
 */
export async function compareTensors<Kind extends SliceableTensor | LogicalTensor>(
  a: Kind,
  b: Kind,
  options: TransferOptions = {},
): Promise<TensorDifference> {
  requireTensor('a', a);
  requireTensor('b', b);
  requireOptions(options, TRANSFER_OPTIONS);
  if (a.shape.join() !== b.shape.join()) {
    throw argumentRangeError(
      'shape of b',
      `[${a.shape.join(', ')}], as of a`,
      `[${b.shape.join(', ')}]`,
    );
  }
  const sums: Sums = {
    ...{ differing: 0, compared: 0, maxError: 0 },
    ...{ squares: 0, dot: 0, squaresA: 0, squaresB: 0 },
  };
  let elements = 0;
  for await (const { values, parts } of alikeWindows([a, b], options)) {
    const [x, y] = values as [ArrayLike<number>, ArrayLike<number>];
    elements += x.length;
    for (const { begin, end } of cut(0, x.length, BLOCK)) addPairs(sums, x, y, begin, end);
    // Rounded to doubles, different integers of 64 bits can be equal.
    if (parts?.every(isBigInteger)) sums.differing += hiddenDifferences(parts, x, y);
  }
  const { differing, compared, maxError, squares, dot, squaresA, squaresB } = sums;
  const norms = Math.sqrt(squaresA) * Math.sqrt(squaresB);
  return {
    ...{ elements, differing, maxError: compared === 0 ? null : maxError },
    relative: squaresA === 0 ? null : Math.sqrt(squares / squaresA),
    cosine: norms === 0 ? null : Math.min(1, Math.max(-1, dot / norms)),
  };
}

/** How many integers differ that are equal as doubles. */
function hiddenDifferences(
  parts: readonly Tensor[],
  x: ArrayLike<number>,
  y: ArrayLike<number>,
): number {
  const [exactA, exactB] = parts.map(({ data }) => data) as unknown as [
    BigInt64Array,
    BigInt64Array,
  ];
  let count = 0;
  for (let i = 0; i < x.length; i++) {
    if (x[i] === y[i] && exactA[i] !== exactB[i]) count++;
  }
  return count;
}
