/**
 * The layout of a tensor's items in the bytes that hold them: a shape, a distance per dimension, a first item. Checks
 * a file's layout in exact arithmetic, before any byte is read.
 */

import { type ErrorContext, FormatError, type FormatErrorCode } from '../../errors/errors.js';

/** A checked layout: every item lies within the bytes, and all numbers are safe integers. */
export interface TensorLayout {
  /** Bytes of one item. */
  readonly itemByteLength: number;
  /** Dimensions in items, outermost first. */
  readonly shape: readonly number[];
  /** Distance of neighbours per dimension, in items; in C order where there is only one. */
  readonly strides: readonly number[];
  /** The first item; 0 if absent. */
  readonly offset: number;
  /** Bytes of all items, one after the other. */
  readonly byteLength: number;
}

/** A layout as a file declares it, in integers of any size. */
export interface DeclaredLayout {
  readonly itemByteLength: number;
  readonly shape: readonly (number | bigint)[];
  readonly strides: readonly (number | bigint)[];
  readonly offset: number | bigint;
}

/** Limits of one tensor. */
export interface LayoutLimits {
  /** Most bytes of one tensor; 64 GiB by default. */
  readonly maxTensorByteLength?: number | undefined;
}

/** More dimensions than any real tensor has, and than NumPy and torch allow. */
export const MAX_RANK = 64;

const MAX_TENSOR_BYTE_LENGTH = 64 * 2 ** 30;

/**
 * An expanded tensor repeats items by strides of 0: a file of 24 bytes could ask for terabytes. Real files repeat a
 * row or a number; small tensors may repeat items freely.
 */
const MAX_EXPANSION = 1024;
const FREE_BYTE_LENGTH = 64 * 1024;

/**
 * Checks a layout against the length of the bytes that hold it.
 *
 * @param code of errors about invalid values
 * @throws FormatError with that code; `SAFETENSORS_FOREIGN_LIMIT` when it is too large
 */
export function checkLayout(
  given: DeclaredLayout,
  heldByteLength: number,
  limits: LayoutLimits,
  code: FormatErrorCode,
  context: ErrorContext,
): TensorLayout {
  const refuse = (message: string): never => {
    throw new FormatError(code, message, context);
  };
  const plain = plainLayout(given, heldByteLength, limits);
  if (plain !== undefined) return plain;
  const { itemByteLength } = given;
  const rank = given.shape.length;
  if (rank > MAX_RANK) refuse(`expected at most ${MAX_RANK} dimensions, found ${rank}`);
  if (given.strides.length !== rank) {
    refuse(`expected ${rank} strides, one per dimension, found ${given.strides.length}`);
  }
  const shape = given.shape.map((size) => exactInteger(size, 'a dimension', refuse));
  const strides = given.strides.map((stride) => exactInteger(stride, 'a stride', refuse));
  const offset = exactInteger(given.offset, 'the offset', refuse);
  const shown = shownList(shape);
  const count = shape.reduce((product, size) => product * size, 1n);
  if (count > MAX_INTEGER || shape.some((size) => size > MAX_SAFE)) {
    refuse(`a shape of ${shown} has more items than can be counted`);
  }
  if (count === 0n) {
    const sizes = shape.map(Number);
    return { itemByteLength, shape: sizes, strides: cStrides(sizes), offset: 0, byteLength: 0 };
  }
  const last = shape.reduce(
    (sum, size, axis) => sum + (size - 1n) * (strides[axis] as bigint),
    offset,
  );
  const needed = (last + 1n) * BigInt(itemByteLength);
  if (needed > BigInt(heldByteLength)) {
    refuse(
      `expected at least ${needed} bytes for the shape ${shown}, strides ${shownList(strides)} and offset ` +
        `${offset}, found ${heldByteLength}`,
    );
  }
  const byteLength = count * BigInt(itemByteLength);
  const { maxTensorByteLength = MAX_TENSOR_BYTE_LENGTH } = limits;
  if (byteLength > BigInt(maxTensorByteLength)) {
    const message = `expected at most ${maxTensorByteLength} bytes (limits.maxTensorByteLength), found ${byteLength}`;
    throw new FormatError('SAFETENSORS_FOREIGN_LIMIT', message, context);
  }
  if (byteLength > BigInt(MAX_EXPANSION) * BigInt(heldByteLength) + BigInt(FREE_BYTE_LENGTH)) {
    const message = `expected at most ${MAX_EXPANSION} times the ${heldByteLength} bytes that hold it, found ${byteLength}`;
    throw new FormatError('SAFETENSORS_FOREIGN_LIMIT', message, context);
  }
  const sizes = shape.map(Number);
  const own = cStrides(sizes);
  return {
    itemByteLength,
    shape: sizes,
    // The only item of a dimension never uses its stride, which may be any number.
    strides: own.map((stride, axis) => (sizes[axis] === 1 ? stride : Number(strides[axis]))),
    offset: Number(offset),
    byteLength: Number(byteLength),
  };
}

/**
 * Returns the layout of an ordinary contiguous tensor, as nearly all are; undefined for any other. Computes in
 * numbers, ten times as fast as in bigints.
 */
function plainLayout(
  { itemByteLength, shape, strides, offset }: DeclaredLayout,
  heldByteLength: number,
  { maxTensorByteLength = MAX_TENSOR_BYTE_LENGTH }: LayoutLimits,
): TensorLayout | undefined {
  if (strides.length !== shape.length || shape.length > MAX_RANK) return undefined;
  if (typeof offset !== 'number' || !Number.isSafeInteger(offset) || offset < 0) return undefined;
  let count = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const size = shape[axis];
    if (typeof size !== 'number' || !Number.isSafeInteger(size) || size < 1) return undefined;
    if (strides[axis] !== count) return undefined;
    count *= size;
  }
  const byteLength = count * itemByteLength;
  const end = offset * itemByteLength + byteLength;
  if (end > heldByteLength || byteLength > maxTensorByteLength) return undefined;
  const sizes = shape as readonly number[];
  return {
    itemByteLength,
    shape: sizes,
    strides: strides as readonly number[],
    offset,
    byteLength,
  };
}

/** Strides of items that stand one after the other, the last dimension innermost. */
export function cStrides(shape: readonly number[]): number[] {
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    strides[axis] = stride;
    stride *= shape[axis] as number;
  }
  return strides;
}

/** Whether the items stand one after the other, in C order. */
export function isContiguous({ shape, strides }: TensorLayout): boolean {
  let stride = 1;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    if (strides[axis] !== stride) return false;
    stride *= shape[axis] as number;
  }
  return true;
}

const MAX_SAFE = BigInt(Number.MAX_SAFE_INTEGER);

/** The integers of torch and NumPy have 64 bits. */
const MAX_INTEGER = 2n ** 63n - 1n;

/** Most dimensions in a message. */
const SHOWN_RANK = 8;

function shownList(sizes: readonly bigint[]): string {
  const more = sizes.length > SHOWN_RANK ? `, … ${sizes.length} in all` : '';
  return `[${sizes.slice(0, SHOWN_RANK).join(', ')}${more}]`;
}

/** No longer than the longest integer of 64 bits. */
function shownNumber(value: number | bigint): string {
  const isLong = typeof value === 'bigint' && BigInt.asIntN(64, value) !== value;
  return isLong ? 'one of more than 64 bits' : `${value}`;
}

function exactInteger(
  value: number | bigint,
  what: string,
  refuse: (message: string) => never,
): bigint {
  const isInteger = typeof value === 'bigint' || Number.isSafeInteger(value);
  if (!isInteger || value < 0 || value > MAX_INTEGER) {
    refuse(`expected ${what} to be an integer from 0 to 2^63 - 1, found ${shownNumber(value)}`);
  }
  return BigInt(value);
}
