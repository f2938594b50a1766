/** Dtype and shape: how many elements a tensor has, and how many bytes one to be written takes. */

import { describeValue } from '../errors/arguments.js';
import { rejectTensor } from '../errors/errors.js';
import { DTYPE_NAMES, DTYPES, type Dtype } from './dtype.js';
import { dtypeOfOtherName } from './dtype-names.js';

/** Kind and size of a tensor. */
export interface TensorSpec {
  /** As spelled in the header. */
  readonly dtype: Dtype;
  /** Dimensions in elements, outermost first, C order; empty for a scalar. */
  readonly shape: readonly number[];
}

/** A tensor to be written, checked: everything but its bytes. */
export interface NamedTensorSpec extends TensorSpec {
  readonly name: string;
  /** In bytes, as dtype and shape say. */
  readonly byteLength: number;
}

/** The reference counts elements and bits in 64 bits; more overflow. */
export const MAX_UINT64: bigint = 2n ** 64n - 1n;

/** Number of elements of a shape: the product of its dimensions, 1 for a scalar. */
export function elementCountOf(shape: readonly number[]): number {
  let count = 1;
  // Frozen arrays have a slow iterator until the engine has compiled this.
  for (let i = 0; i < shape.length; i++) count *= shape[i] as number;
  return count;
}

/** Length in bytes of a tensor of a valid file. */
export function tensorByteLength({ dtype, shape }: TensorSpec): number {
  return (elementCountOf(shape) * DTYPES[dtype].bits) / 8;
}

/**
 * Checks what a caller says about a tensor. The shape is a frozen copy, so the length stays true when
 * the caller's array changes.
 *
 * @throws InvalidTensorError for an unknown dtype, for dimensions that are not integers from 0, for
 *   elements of a packed dtype that do not fill whole bytes, and for more bytes than the format or a
 *   number can count
 */
export function readSpec(name: string, spec: TensorSpec): NamedTensorSpec {
  const { dtype, shape } = spec;
  if (typeof dtype !== 'string' || !Object.hasOwn(DTYPES, dtype)) {
    const found = `${describeValue(dtype)}${dtypeHint(dtype)}`;
    return rejectTensor(
      `expected the dtype to be one of ${DTYPE_NAMES.join(', ')}, found ${found}`,
      name,
    );
  }
  if (!Array.isArray(shape)) {
    const found = `${describeValue(shape)}${'dims' in spec ? '; it is called shape, not dims' : ''}`;
    return rejectTensor(`expected the shape to be an array, found ${found}`, name);
  }
  const dimensions: number[] = emptyShape(shape.length);
  let bits = DTYPES[dtype].bits;
  let largest = bits;
  // One by one, since the array may be four billion holes.
  for (let i = 0; i < shape.length; i++) {
    const dimension: unknown = shape[i];
    if (!Number.isSafeInteger(dimension) || (dimension as number) < 0) {
      const expected = 'expected dimensions that are integers from 0 to 2^53 - 1';
      return rejectTensor(`${expected}, found ${describeValue(dimension)} as dimension ${i}`, name);
    }
    dimensions[i] = dimension as number;
    bits *= dimension as number;
    largest = Math.max(largest, bits);
  }
  let byteLength = bits / 8;
  // NaN means that the product was infinite before a dimension of 0.
  if (!(largest <= Number.MAX_SAFE_INTEGER)) byteLength = largeByteLength(name, dtype, dimensions);
  else if (bits % 8 !== 0) failPacked(name, dtype, bits);
  return { name, dtype, shape: Object.freeze(dimensions), byteLength };
}

/** More dimensions than tensors have. */
const MANY_DIMENSIONS = 64;

/** An array for the dimensions. One that grows has room for 17, which is most of the memory of a small tensor. */
function emptyShape(rank: number): number[] {
  return rank < MANY_DIMENSIONS ? new Array<number>(rank) : [];
}

function dtypeHint(given: unknown): string {
  const dtype = typeof given === 'string' ? dtypeOfOtherName(given) : undefined;
  return dtype === undefined ? '' : `; it is called ${dtype} here`;
}

/**
 * The length of a tensor whose bits a number cannot count exactly. Judges as the reader does: the
 * dimensions are multiplied from the left in 64 bits, and what follows a zero does not matter.
 */
function largeByteLength(name: string, dtype: Dtype, shape: readonly number[]): number {
  let elements = 1n;
  for (const dimension of shape) {
    elements *= BigInt(dimension);
    if (elements > MAX_UINT64) failSize(name, 'the product of the dimensions is larger');
  }
  const bits = elements * BigInt(DTYPES[dtype].bits);
  if (bits > MAX_UINT64) failSize(name, `${elements} elements of ${dtype} take ${bits}`);
  if (bits % 8n !== 0n) return failPacked(name, dtype, bits);
  const byteLength = bits / 8n;
  if (byteLength > Number.MAX_SAFE_INTEGER) {
    return rejectTensor(`expected at most 2^53 - 1 bytes, found ${byteLength}`, name);
  }
  return Number(byteLength);
}

function failSize(name: string, found: string): never {
  rejectTensor(`expected a size below 2^64 bits, but ${found}`, name);
}

function failPacked(name: string, dtype: Dtype, bits: number | bigint): never {
  const elements = BigInt(bits) / BigInt(DTYPES[dtype].bits);
  rejectTensor(
    `expected whole bytes, but ${elements} elements of ${dtype} take ${bits} bits`,
    name,
  );
}

/** A tensor as a matrix, whose rows run along its last dimension. */
export interface Matrix {
  readonly rows: number;
  /** Elements of a row. */
  readonly columns: number;
}

/** Returns the rows and columns of a tensor; a scalar is one row of one element. */
export function matrixOf(shape: readonly number[]): Matrix {
  const columns = shape.at(-1) ?? 1;
  return { rows: shape.slice(0, -1).reduce((product, size) => product * size, 1), columns };
}
