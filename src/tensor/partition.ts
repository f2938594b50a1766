/** Tensor parallelism: finds the part of a tensor that belongs to one rank. */

import {
  argumentTypeError,
  type OptionNames,
  requireInteger,
  requireOptions,
} from '../errors/arguments.js';
import { type ErrorContext, SafetensorsError } from '../errors/errors.js';
import type { SliceIndex } from './slice.js';

/** One part of a tensor: that of rank `rank` out of `worldSize`, along a dimension. */
export interface Partition {
  /** From 0 to `worldSize` - 1. */
  readonly rank: number;
  /** Number of equal parts. */
  readonly worldSize: number;
  /** The dimension that is divided, 0 by default; negative ones count from the last. */
  readonly dim?: number | undefined;
}

const PARTITION_NAMES: OptionNames<Partition> = { rank: true, worldSize: true, dim: true };

/**
 * Returns the index of a rank's part, for `slice`: positions `rank * n / worldSize` to
 * `(rank + 1) * n / worldSize` of the dimension, whose length n `worldSize` must divide. Parts of an
 * empty dimension are empty.
 *
 * @throws SafetensorsError `SAFETENSORS_SLICE_OUT_OF_RANGE` without such a dimension (a scalar has no
 *   dimensions), `SAFETENSORS_NOT_DIVISIBLE`
 */
export function planPartition(
  shape: readonly number[],
  partition: Partition,
  context: ErrorContext,
): SliceIndex[] {
  if (typeof partition !== 'object' || partition === null) {
    throw argumentTypeError('partition', 'an object with rank and worldSize', partition);
  }
  requireOptions(partition, PARTITION_NAMES);
  const { rank, worldSize, dim = 0 } = partition;
  requireInteger('worldSize', worldSize, 1, Number.MAX_SAFE_INTEGER);
  requireInteger('rank', rank, 0, worldSize - 1);
  if (!Number.isInteger(dim)) throw argumentTypeError('dim', 'an integer', dim);
  const position = dim < 0 ? dim + shape.length : dim;
  const length = shape[position];
  if (length === undefined) {
    const expected =
      shape.length === 0
        ? 'expected a tensor with dimensions, found a scalar'
        : `expected dim from ${-shape.length} to ${shape.length - 1}, found ${dim}`;
    throw new SafetensorsError('SAFETENSORS_SLICE_OUT_OF_RANGE', expected, context);
  }
  if (length % worldSize !== 0) {
    const message = `expected the length of dimension ${position} to be divisible by worldSize ${worldSize}, found ${length}`;
    throw new SafetensorsError('SAFETENSORS_NOT_DIVISIBLE', message, context);
  }
  const part = length / worldSize;
  return [...Array<null>(position).fill(null), [rank * part, (rank + 1) * part]];
}
