/** Compares the values of two tensors of one shape. */

import { argumentRangeError, requireOptions } from '../../errors/arguments.js';
import type { Tensor } from '../../tensor/tensor.js';
import { cut } from '../../work/byte-ranges.js';
import { TRANSFER_OPTIONS, type TransferOptions } from '../../work/transfer.js';
import { factorOf, isOrdinarySum, LOWEST_LEVEL, levelOf, raised } from './scaled.js';
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
  /**
   * ‖a − b‖ / ‖a‖ of the values that are finite in both, of any size; null if the first side has only zeros. Infinite
   * if the quotient exceeds the largest double.
   */
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
  readonly products: Products;
}

/** Sums of the errors' squares, of the values' squares and of products, in units of the levels of their factors. */
interface Powers {
  readonly squares: number;
  readonly dot: number;
  readonly squaresA: number;
  readonly squaresB: number;
  /** Of the errors, of the first and of the second values. */
  readonly levels: readonly [error: number, a: number, b: number];
}

/** Adds up sums of any levels. */
class Products {
  #sum: Powers = {
    ...{ squares: 0, dot: 0, squaresA: 0, squaresB: 0 },
    levels: [LOWEST_LEVEL, LOWEST_LEVEL, LOWEST_LEVEL],
  };

  add(other: Powers): void {
    const [error, a, b] = this.#sum.levels.map((level, i) =>
      Math.max(level, other.levels[i] as number),
    ) as [number, number, number];
    const [one, two] = [this.#sum, other].map(({ levels: [ownError, ownA, ownB], ...sums }) => ({
      squares: raised(sums.squares, 2 * (ownError - error)),
      dot: raised(sums.dot, ownA - a + ownB - b),
      squaresA: raised(sums.squaresA, 2 * (ownA - a)),
      squaresB: raised(sums.squaresB, 2 * (ownB - b)),
    })) as [Omit<Powers, 'levels'>, Omit<Powers, 'levels'>];
    this.#sum = {
      squares: one.squares + two.squares,
      dot: one.dot + two.dot,
      squaresA: one.squaresA + two.squaresA,
      squaresB: one.squaresB + two.squaresB,
      levels: [error, a, b],
    };
  }

  result(): Pick<TensorDifference, 'relative' | 'cosine'> {
    const { squares, dot, squaresA, squaresB, levels } = this.#sum;
    const [error, a] = levels;
    const norms = Math.sqrt(squaresA) * Math.sqrt(squaresB);
    return {
      relative: squaresA === 0 ? null : raised(Math.sqrt(squares) / Math.sqrt(squaresA), error - a),
      cosine: norms === 0 ? null : Math.min(1, Math.max(-1, dot / norms)),
    };
  }
}

function isBigInteger({ dtype }: Tensor): boolean {
  return dtype === 'I64' || dtype === 'U64';
}

/** Whether no value needs more than 32 bits. */
function isNarrow(values: ArrayLike<number>): boolean {
  return (values as Float32Array).BYTES_PER_ELEMENT <= 4;
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
  // An infinity or NaN among the values makes the sums infinite or NaN. Only doubles can be so extreme that their
  // squares are inexact.
  const isWide = !(isNarrow(x) && isNarrow(y));
  const isOrdinary = isWide
    ? [squaresA, squaresB].every(isOrdinarySum) && (maxError === 0 || isOrdinarySum(squares))
    : Number.isFinite(squaresA + squaresB);
  if (!isOrdinary) {
    addUnusualPairs(sums, x, y, begin, end);
    return;
  }
  sums.differing += differing;
  sums.compared += end - begin;
  sums.maxError = Math.max(sums.maxError, maxError);
  const errorLevel = maxError === 0 ? LOWEST_LEVEL : 0;
  sums.products.add({ squares, dot, squaresA, squaresB, levels: [errorLevel, 0, 0] });
}

/** Adds the pairs [begin, end) when some are NaN, infinite or extreme: several times as slow. */
function addUnusualPairs(
  sums: Sums,
  x: ArrayLike<number>,
  y: ArrayLike<number>,
  begin: number,
  end: number,
): void {
  let [mostError, mostA, mostB] = [0, 0, 0];
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
      mostError = Math.max(mostError, error);
      mostA = Math.max(mostA, Math.abs(p));
      mostB = Math.max(mostB, Math.abs(q));
    }
  }
  const [error, a, b] = [levelOf(mostError), levelOf(mostA), levelOf(mostB)];
  const [factor, factorA, factorB] = [factorOf(error), factorOf(a), factorOf(b)];
  let [squares, dot, squaresA, squaresB] = [0, 0, 0, 0];
  for (let i = begin; i < end; i++) {
    const p = x[i] as number;
    const q = y[i] as number;
    if (!(Number.isFinite(p) && Number.isFinite(q))) continue;
    // The difference of large values overflows; that of small ones gets inexact when they are scaled apart.
    squares += (error > 0 ? p * factor - q * factor : (p - q) * factor) ** 2;
    dot += p * factorA * (q * factorB);
    squaresA += (p * factorA) ** 2;
    squaresB += (q * factorB) ** 2;
  }
  sums.products.add({ squares, dot, squaresA, squaresB, levels: [error, a, b] });
}

/**
 * Compares the values of two tensors of one shape, of any dtypes. As numbers: equal values of different dtypes are the
 * same.
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
export async function compareTensors(
  a: SliceableTensor,
  b: SliceableTensor,
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
  const sums: Sums = { differing: 0, compared: 0, maxError: 0, products: new Products() };
  let elements = 0;
  for await (const { values, parts } of alikeWindows([a, b], options)) {
    const [x, y] = values as [ArrayLike<number>, ArrayLike<number>];
    elements += x.length;
    for (const { begin, end } of cut(0, x.length, BLOCK)) addPairs(sums, x, y, begin, end);
    // Rounded to doubles, different integers of 64 bits can be equal.
    if (parts.every(isBigInteger)) sums.differing += hiddenDifferences(parts, x, y);
  }
  const { differing, compared, maxError, products } = sums;
  return {
    ...{ elements, differing, maxError: compared === 0 ? null : maxError },
    ...products.result(),
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
