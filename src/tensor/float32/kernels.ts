/** Converts to float32, and casts, by native kernels when they were provided, else in TypeScript. */

import { argumentRangeError, argumentTypeError } from '../../errors/arguments.js';
import { isFloat32Array, plainFloat32Array } from '../../errors/brand-checks.js';
import type { Dtype } from '../../header/dtype.js';
import { yieldNow } from '../../work/yielding.js';
import { type CastSource, type CastTarget, castInTypeScript } from './cast.js';
import { convertToFloat32 } from './to-float32.js';

/**
 * Rows of a matrix to which a product of factors is added: row i of `left` times the matrix `right`. Products are added
 * one by one, in order. Without factors only the dtype changes.
 */
export interface ProductRows {
  readonly from: CastSource;
  readonly to: CastSource;
  /** Whole rows. */
  readonly bytes: Uint8Array;
  /** As many elements. */
  readonly output: Uint8Array;
  /** As many values for each row as `right` has rows. */
  readonly left: Float64Array;
  /** Rows of at least `columns` values, rounded up to a multiple of 8. */
  readonly right: Float32Array;
  readonly columns: number;
}

/**
 * The same elements of several tensors, of up to 32 bits each. The differences of all others from the first one are
 * task vectors.
 */
export interface InputElements {
  readonly from: readonly CastSource[];
  readonly bytes: readonly Uint8Array[];
  /** Position of the first element in its tensor. */
  readonly first: number;
}

/**
 * What a survey adds up, and its rule:
 * - `products`: dot products of all pairs of inputs, in eight lanes by position; 1 for those of task vectors, else 0
 * - `upper`: magnitudes of a task vector by the upper bits of their float32, in four lanes; 0
 * - `lower`: magnitudes with the given upper bits, by the lower ones
 * - `equal`: counts down to the last one with the given bits, and sets its position
 * - `sums`: all magnitudes, then those that a selection keeps, in eight lanes each
 */
export type SurveyKind = 'products' | 'upper' | 'lower' | 'equal' | 'sums';

/** Elements to survey: those of two tensors, except for products. */
export interface SurveyedElements extends InputElements {
  readonly kind: SurveyKind;
  readonly rule: Float64Array;
  /** The sums so far. */
  readonly results: Float64Array;
}

/** Elements to merge. */
export interface MergedElements extends InputElements {
  readonly to: CastSource;
  /**
   * 0 and the coefficients of a weighted sum. For task vectors 1 (added up) or 2 (of the elected sign), lambda, whether
   * normalized, and for each of them factor, weight, and a selection of four numbers: 0 keeps all; 1 the largest: bit
   * pattern of the smallest one, position of the last one that equals it; 2 what is drawn: two keys, and the limit.
   */
  readonly rules: Float64Array;
  readonly output: Uint8Array;
}

/** Whole rows of a matrix: each value is a code times the scale of its block. */
export interface ScaledRows {
  /** Of the codes. */
  readonly dtype: Dtype;
  readonly bytes: Uint8Array;
  readonly output: Float32Array;
  readonly columns: number;
  /** The first row, counted from the first row of its block: the first block may be entered in its middle. */
  readonly firstRow: number;
  readonly blockRows: number;
  readonly blockColumns: number;
  /** Scales of each row of blocks, from the one of the first row on. */
  readonly scales: Float32Array;
  readonly gridColumns: number;
}

/** The block types of GGUF that the addon decodes, in the order of `BlockType` in `native/dequantize.h`. */
export const NATIVE_BLOCK_TYPES = [
  'Q4_0',
  'Q4_1',
  'Q5_0',
  'Q5_1',
  'Q8_0',
  'Q2_K',
  'Q3_K',
  'Q4_K',
  'Q5_K',
  'Q6_K',
] as const;

export type NativeBlockType = (typeof NATIVE_BLOCK_TYPES)[number];

/** Kernels faster than TypeScript. The arrays are as for {@link toFloat32}. */
export interface Float32Kernels {
  /** Converts on this thread. */
  convert(dtype: Dtype, bytes: Uint8Array, output: Float32Array): void;
  /** Converts on a thread of a pool. */
  convertAsync(dtype: Dtype, bytes: Uint8Array, output: Float32Array): Promise<void>;
  /** Casts on this thread. */
  cast(from: CastSource, to: CastTarget, bytes: Uint8Array, output: Uint8Array): number;
  /** Casts on a thread of a pool. */
  castAsync(
    from: CastSource,
    to: CastTarget,
    bytes: Uint8Array,
    output: Uint8Array,
  ): Promise<number>;
  /** Decodes rows and multiplies them on this thread. */
  dequantizeRows(rows: ScaledRows): void;
  /** Decodes whole blocks on this thread. */
  decodeBlocks(type: NativeBlockType, blocks: Uint8Array, output: Float32Array): void;
  /** Adds products on this thread, in float64, and rounds once. */
  addProduct(rows: ProductRows): number;
  /** Adds products on a thread of a pool. */
  addProductAsync(rows: ProductRows): Promise<number>;
  /** Surveys elements on this thread. */
  survey(elements: SurveyedElements): void;
  /** Surveys elements on a thread of a pool. */
  surveyAsync(elements: SurveyedElements): Promise<void>;
  /** Merges elements on this thread, in float64, and rounds once. */
  mergeElements(elements: MergedElements): number;
  /** Merges elements on a thread of a pool. */
  mergeElementsAsync(elements: MergedElements): Promise<number>;
}

let provided: () => Float32Kernels | undefined = () => undefined;

/** Sets the function that provides the kernels for every conversion. Never called in a browser. */
export function provideKernels(provider: () => Float32Kernels | undefined): void {
  provided = provider;
}

/**
 * Converts packed elements, at any alignment, on this thread.
 *
 * @param output as many values as the elements have, two for one of C64
 */
export function toFloat32(dtype: Dtype, bytes: Uint8Array, output: Float32Array): void {
  const kernels = provided();
  if (kernels === undefined) convertToFloat32(dtype, bytes, output);
  else kernels.convert(dtype, bytes, output);
}

/**
 * Casts packed elements to another dtype, at any alignment, on this thread. Returns how many were too large
 * for it, as `castInTypeScript` does.
 */
export function cast(
  from: CastSource,
  to: CastTarget,
  bytes: Uint8Array,
  output: Uint8Array,
): number {
  const kernels = provided();
  return kernels === undefined
    ? castInTypeScript(from, to, bytes, output)
    : kernels.cast(from, to, bytes, output);
}

/** The kernels; undefined where only TypeScript is available. */
export function nativeKernels(): Float32Kernels | undefined {
  return provided();
}

/** Whether `convertOnPool` has threads. */
export function hasPool(): boolean {
  return provided() !== undefined;
}

/**
 * As {@link toFloat32}, on a thread of the pool. Without kernels it runs on this thread, and the promise settles
 * in a later turn of the event loop.
 *
 * A pool thread works on bare addresses. The memory of both arrays must not be detached or resized
 * before the promise settles, so no other code may have their buffers.
 */
export async function convertOnPool(
  dtype: Dtype,
  bytes: Uint8Array,
  output: Float32Array,
): Promise<void> {
  const kernels = provided();
  if (kernels !== undefined) return kernels.convertAsync(dtype, bytes, output);
  convertToFloat32(dtype, bytes, output);
  await yieldNow();
}

/** As {@link cast}, on a thread of the pool if there are kernels, under the terms of `convertOnPool`. */
export async function castOnPool(
  from: CastSource,
  to: CastTarget,
  bytes: Uint8Array,
  output: Uint8Array,
): Promise<number> {
  const kernels = provided();
  if (kernels !== undefined) return await kernels.castAsync(from, to, bytes, output);
  const tooLarge = castInTypeScript(from, to, bytes, output);
  await yieldNow();
  return tooLarge;
}

/**
 * Checks the caller's array for the result. Returns a new array over its memory, because the caller's may be of a
 * subclass whose getters lie.
 *
 * @throws TypeError `ERR_INVALID_ARG_TYPE`, RangeError `ERR_OUT_OF_RANGE` for another length
 */
export function requireInto(into: Float32Array, valueCount: number): Float32Array {
  if (!isFloat32Array(into)) throw argumentTypeError('into', 'a Float32Array', into);
  const values = plainFloat32Array(into);
  if (values.length !== valueCount) {
    throw argumentRangeError('the length of into', `${valueCount}, one per value`, values.length);
  }
  return values;
}
