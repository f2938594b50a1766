/** Compares the values of two tensors of one shape. */

import { argumentRangeError, type OptionNames, requireOptions } from '../../errors/arguments.js';
import type { Tensor } from '../../tensor/tensor.js';
import { TRANSFER_OPTIONS, type TransferOptions } from '../../work/transfer.js';
import { Changes } from './changes.js';
import { addPairs, emptySums } from './pair-sums.js';
import {
  alikeWindows,
  isBigInteger,
  requireTensor,
  type SliceableTensor,
} from './tensor-values.js';

/** Differences of two tensors; C64 counts real and imaginary parts separately. */
export interface TensorDifference {
  /** Values of one side. */
  readonly elements: number;
  /** Number of different values. Two NaN are equal, and so are 0 and -0. */
  readonly differing: number;
  /** Number of places with NaN or an infinity in a or b: `relative` and `cosine` are without them. */
  readonly nonFinite: number;
  /** Greatest absolute error where both values are numbers; null without such values. */
  readonly maxError: number | null;
  /**
   * ‖a − b‖ / ‖a‖ of the values that are finite in both, of any size; null if the first side has only zeros. Infinite
   * if the quotient exceeds the largest double.
   */
  readonly relative: number | null;
  /** Cosine similarity of the values that are finite in both; null if one side has only zeros. */
  readonly cosine: number | null;
  /**
   * With `base`: cosine similarity of a − base and b − base, of the values that are finite in all three; null if one
   * side has no change.
   */
  readonly cosineOfChanges?: number | null;
}

/** Options of {@link compareTensors}. */
export interface CompareTensorsOptions extends TransferOptions {
  /** The tensor that both come from, of the same shape. */
  readonly base?: SliceableTensor | undefined;
}

type Values = ArrayLike<number>;

const COMPARE_OPTIONS: OptionNames<CompareTensorsOptions> = { ...TRANSFER_OPTIONS, base: true };

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
  options: CompareTensorsOptions = {},
): Promise<TensorDifference> {
  requireTensor('a', a);
  requireTensor('b', b);
  requireOptions(options, COMPARE_OPTIONS);
  const { base, ...transfer } = options;
  requireShape('b', b, a);
  if (base !== undefined) {
    requireTensor('base', base);
    requireShape('base', base, a);
  }
  const sums = emptySums();
  const changes = base === undefined ? undefined : new Changes();
  let elements = 0;
  // Progress counts the bytes of the first.
  const tensors = base === undefined ? [a, b] : [a, b, base];
  for await (const { values, parts } of alikeWindows(tensors, transfer)) {
    const [x, y, from] = values as [Values, Values, Values];
    const [partOfA, partOfB, partOfBase] = parts as [Tensor, Tensor, Tensor];
    changes?.add({ values: [from, x, y], parts: [partOfBase, partOfA, partOfB] });
    elements += x.length;
    addPairs(sums, x, y);
    // Rounded to doubles, different integers of 64 bits can be equal.
    if (isBigInteger(partOfA) && isBigInteger(partOfB)) {
      sums.differing += hiddenDifferences([partOfA, partOfB], x, y);
    }
  }
  const { differing, compared, nonFinite, maxError, products } = sums;
  return {
    ...{ elements, differing, nonFinite, maxError: compared === 0 ? null : maxError },
    ...products.result(),
    ...(changes === undefined ? {} : { cosineOfChanges: changes.cosine }),
  };
}

/** Throws a RangeError `ERR_OUT_OF_RANGE` unless a tensor has the shape of the first. */
function requireShape(name: string, { shape }: SliceableTensor, first: SliceableTensor): void {
  if (shape.join() === first.shape.join()) return;
  const expected = `[${first.shape.join(', ')}], as of a`;
  throw argumentRangeError(`shape of ${name}`, expected, `[${shape.join(', ')}]`);
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
