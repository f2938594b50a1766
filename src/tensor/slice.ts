/**
 * Basic indexing by numpy's rules: turns a shape and an index into the selected bytes, and reads an index
 * written as text, in the notation of numpy's brackets.
 */

import {
  argumentRangeError,
  argumentTypeError,
  describeValue,
  requireString,
} from '../errors/arguments.js';
import { type ErrorContext, SafetensorsError } from '../errors/errors.js';
import { elementCountOf } from '../header/tensor-spec.js';
import { type StridedCopy, stridedCopy } from './strided-copy.js';

/**
 * The selection from one dimension. A number takes one position and drops the dimension. `[start, stop]`
 * or `[start, stop, step]` takes a range, in which `null` is an open end. `null` takes the whole
 * dimension (numpy's `None` adds a dimension; this does not). `'...'` stands for all dimensions not
 * named, and may occur once. Negative numbers count from the end.
 */
export type SliceIndex =
  | number
  | null
  | '...'
  | readonly [start: number | null, stop: number | null, step?: number | null];

/** The argument of `slice`: an index per dimension, or one text in numpy's notation, such as `'-1, ::2'`. */
export type SliceIndices = readonly SliceIndex[] | readonly [text: string];

/**
 * Tells options from indices, of a call that takes them last: an index is an array, a number, a string or null.
 */
export function splitOptions<Options extends object>(
  args: readonly unknown[],
): [index: SliceIndices, options: Options | Record<string, never>] {
  const last = args.at(-1);
  const hasOptions = typeof last === 'object' && last !== null && !Array.isArray(last);
  const index = (hasOptions ? args.slice(0, -1) : args) as SliceIndices;
  return [index, hasOptions ? (last as Options) : {}];
}

/** A planned slice of a tensor: the result's shape, and where its bytes are. */
export interface SlicePlan extends StridedCopy {
  /** Dimensions of the result, outermost first. */
  readonly shape: readonly number[];
  /** Number of elements of the result. */
  readonly elementCount: number;
  /**
   * Whether the result is one run of the source (`byteLength` bytes from `byteOffset` on), so that a view
   * is enough. True for empty results, whose `byteOffset` is 0.
   */
  readonly contiguous: boolean;
}

/** The positions that a slice takes from one dimension: `start`, `start + step`, and so on. */
export interface SliceAxis {
  /** The first position; 0 if there is none. */
  readonly start: number;
  /** The distance to the next position; negative if the order is reversed. */
  readonly step: number;
  /** Number of positions. */
  readonly count: number;
  /** False for a single index, which removes the dimension from the result. */
  readonly kept: boolean;
}

/**
 * Plans a slice by numpy's rules: ranges are clamped, results may be empty, a negative step reverses, and
 * dimensions without an index are taken whole.
 *
 * The cost is linear in the rank and the number of indices; no element is read, and no memory is
 * allocated for elements.
 *
 * @param shape dimensions of the source, C order, packed
 * @param indices one per dimension, or one text
 * @param bits bits per element; with 4 or 6 every run must start and end on a whole byte
 * @param context the tensor, for errors
 * @throws SafetensorsError `SLICE_OUT_OF_RANGE` for a number outside its dimension, `TOO_MANY_INDICES`,
 *   `MISALIGNED_SLICE` when a packed sub-byte dtype is cut inside a byte
 * @throws TypeError `ERR_INVALID_ARG_TYPE` unless every index is one
 * @throws RangeError `ERR_OUT_OF_RANGE` for a step of 0, a second `'...'`, or a text in another notation
 */
export function planSlice(
  shape: readonly number[],
  indices: SliceIndices,
  bits: number,
  context: ErrorContext = {},
): SlicePlan {
  const selections = sliceAxes(shape, indices, context);
  const counts = selections.map(({ count }) => count);
  const strides = new Array<number>(shape.length);
  let first = 0;
  let sourceStride = 1;
  for (let dimension = shape.length - 1; dimension >= 0; dimension--) {
    const { start, step } = selections[dimension] as SliceAxis;
    first += start * sourceStride;
    strides[dimension] = step * sourceStride;
    sourceStride *= shape[dimension] as number;
  }
  const { byteLength, byteOffset, runByteLength, loops } = stridedCopy(
    counts,
    strides,
    first,
    bits / 8,
  );
  requireWholeBytes([byteOffset, runByteLength, ...loops.map(({ from }) => from)], bits, context);
  return {
    shape: selections.filter(({ kept }) => kept).map(({ count }) => count),
    elementCount: byteLength === 0 ? 0 : elementCountOf(counts),
    contiguous: loops.length === 0,
    byteLength,
    byteOffset,
    runByteLength,
    loops,
  };
}

/**
 * Checks that every run of a packed dtype starts and ends on a byte. Two elements of 4 bits share a byte, four
 * elements of 6 bits share three bytes: the first position, the strides and the run's length must all be
 * multiples of that number of elements.
 */
function requireWholeBytes(positions: number[], bits: number, context: ErrorContext): void {
  if (positions.every(Number.isInteger)) return;
  const group = 8 / (bits & -bits);
  throw new SafetensorsError(
    'SAFETENSORS_MISALIGNED_SLICE',
    `elements of ${bits} bits can only be sliced on whole bytes: runs must start at a multiple of ` +
      `${group} elements and be a multiple of ${group} long`,
    context,
  );
}

/**
 * The positions that a slice takes from each dimension of the shape.
 *
 * @throws As {@link planSlice}, but not for packed dtypes
 */
export function sliceAxes(
  shape: readonly number[],
  indices: SliceIndices,
  context: ErrorContext,
): SliceAxis[] {
  return selectAll(shape, indexOf(indices), context);
}

/** One selection per dimension of the source. */
function selectAll(
  shape: readonly number[],
  index: readonly SliceIndex[],
  context: ErrorContext,
): SliceAxis[] {
  const ellipsis = index.indexOf('...');
  const second = index.indexOf('...', ellipsis + 1);
  if (second >= 0) {
    throw argumentRangeError(`index[${second}]`, "no second '...'", '...');
  }
  const named = ellipsis < 0 ? index.length : index.length - 1;
  if (named > shape.length) {
    throw new SafetensorsError(
      'SAFETENSORS_TOO_MANY_INDICES',
      `${named} indices for a tensor of ${shape.length} dimensions${rangeHint(index)}`,
      context,
    );
  }
  const before = ellipsis < 0 ? index.length : ellipsis;
  const skipped = shape.length - named;
  return shape.map((size, dimension) => {
    if (dimension >= before && dimension < before + skipped) {
      return { start: 0, step: 1, count: size, kept: true };
    }
    // The ellipsis itself occupies one place in the list.
    const at = dimension < before ? dimension : dimension - skipped + 1;
    return select(index, at, size, dimension, context);
  });
}

/** A hint for two numbers, which are often meant as the ends of a range. */
function rangeHint(index: readonly SliceIndex[]): string {
  const [start, stop] = index;
  if (index.length !== 2 || typeof start !== 'number' || typeof stop !== 'number') return '';
  return start < stop || stop < 0 ? `; a range is one index: [${start}, ${stop}]` : '';
}

function select(
  index: readonly SliceIndex[],
  at: number,
  size: number,
  dimension: number,
  context: ErrorContext,
): SliceAxis {
  const item = index[at] as SliceIndex;
  if (item === null) return { start: 0, step: 1, count: size, kept: true };
  if (Number.isInteger(item)) {
    const position = item as number;
    if (position < -size || position >= size) {
      throw new SafetensorsError(
        'SAFETENSORS_SLICE_OUT_OF_RANGE',
        `index[${at}] is ${position}, out of range for dimension ${dimension} of size ${size}${rangeHint(index)}`,
        context,
      );
    }
    return { start: position < 0 ? position + size : position, step: 1, count: 1, kept: false };
  }
  if (!Array.isArray(item) || item.length < 2 || item.length > 3) {
    const expected =
      "an integer, null, '...', [start, stop] or [start, stop, step], or all one text, such as '0:2, -1'";
    throw argumentTypeError(`index[${at}]`, expected, item);
  }
  return selectRange(item as readonly unknown[], at, size);
}

/** The positions of a range: `count` of them from `start` on, `step` apart. */
function selectRange(range: readonly unknown[], at: number, size: number): SliceAxis {
  const step = integerOrNull(range[2] ?? null, 'step', at) ?? 1;
  if (step === 0) throw argumentRangeError(`step of index[${at}]`, 'different from 0', step);
  const givenStart = integerOrNull(range[0], 'start', at);
  const givenStop = integerOrNull(range[1], 'stop', at);
  // A descending range to the start ends before position 0, which no index can express.
  const isUp = step > 0;
  const lowest = isUp ? 0 : -1;
  const highest = isUp ? size : size - 1;
  const clamp = (bound: number): number =>
    Math.min(Math.max(bound < 0 ? bound + size : bound, lowest), highest);
  const start = givenStart === null ? (isUp ? lowest : highest) : clamp(givenStart);
  const stop = givenStop === null ? (isUp ? highest : lowest) : clamp(givenStop);
  const span = isUp ? stop - start : start - stop;
  if (span <= 0) return { start: 0, step: 1, count: 0, kept: true };
  // Exact for every safe integer: the division has no remainder.
  const last = span - 1;
  const count = 1 + (last - (last % Math.abs(step))) / Math.abs(step);
  return { start, step, count, kept: true };
}

function integerOrNull(value: unknown, part: string, at: number): number | null {
  if (value === null || Number.isInteger(value)) return value as number | null;
  throw argumentTypeError(`${part} of index[${at}]`, 'an integer or null', value);
}

const INTEGER = /^[+-]?[0-9]+$/;

/** Reads a text; any other index is left as it is. */
function indexOf(indices: SliceIndices): readonly SliceIndex[] {
  const [text] = indices;
  const isText = indices.length === 1 && typeof text === 'string';
  return isText ? parseIndices(text) : (indices as readonly SliceIndex[]);
}

/**
 * Parses a slice in numpy notation, as `slice` and `getSlice` do, without a tensor: to check user input, or to compute
 * the shape of a slice before it is read.
 *
 * @param text the slice, such as `'0:10, ::2'`; `''` takes everything
 * @param shape the shape of the tensor
 * @returns the positions that the slice takes from each dimension of the shape
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for another notation, a step of 0 or a second `...`
 * @throws SafetensorsError `SAFETENSORS_SLICE_OUT_OF_RANGE`, `SAFETENSORS_TOO_MANY_INDICES`
 * @throws TypeError `ERR_INVALID_ARG_TYPE` unless `text` is a string and `shape` an array of integers
 *
 * @example
 * ```ts
 * const axes = parseSlice('-1, ::2', [10, 5]);
 * console.log(axes[0]); // → { start: 9, step: 1, count: 1, kept: false }
 * console.log(axes[1]); // → { start: 0, step: 2, count: 3, kept: true }
 * console.log(axes.filter(({ kept }) => kept).map(({ count }) => count)); // → [ 3 ]
 * ```
 */
export function parseSlice(text: string, shape: readonly number[]): SliceAxis[] {
  requireString('text', text);
  const isSize = (size: unknown): boolean => Number.isSafeInteger(size) && Number(size) >= 0;
  if (!Array.isArray(shape) || !shape.every(isSize)) {
    throw argumentTypeError('shape', 'an array of integers from 0', shape);
  }
  return selectAll(shape, parseIndices(text), {});
}

/**
 * Parses indices in numpy notation: `'0:10, ::2'` gives `[[0, 10], [null, null, 2]]`, `':'` gives `[null]`, `''` gives
 * `[]`. Ignores spaces, and accepts a trailing comma. There is no `None`: indices do not add dimensions.
 *
 * @throws RangeError `ERR_OUT_OF_RANGE` for another notation
 */
export function parseIndices(text: string): SliceIndex[] {
  const items = text.split(',').map(trimBlanks);
  if (items.at(-1) === '') items.pop();
  return items.map((item) => parseItem(item, text));
}

function parseItem(item: string, text: string): SliceIndex {
  if (item === '...') return '...';
  const parts = item.split(':').map(trimBlanks);
  if (parts.length > 3) throw syntaxError(item, text);
  if (parts.length === 1) return parseInteger(item, text);
  const [start, stop, step] = parts.map((part) => (part === '' ? null : parseInteger(part, text)));
  if (step != null) return [start ?? null, stop ?? null, step];
  return start === null && stop === null ? null : [start ?? null, stop ?? null];
}

function parseInteger(digits: string, text: string): number {
  if (!INTEGER.test(digits)) throw syntaxError(digits, text);
  // The sum turns -0 into 0.
  return Number(digits) + 0;
}

/** Removes Python's blanks at both ends; `trim` would remove further characters. */
function trimBlanks(text: string): string {
  return text.replace(/^[ \t]+|[ \t]+$/g, '');
}

function syntaxError(part: string, text: string): RangeError {
  const expected = "in numpy's notation, such as '0:10, ::2, ..., -1'";
  const found = part === text ? '' : `${describeValue(part)} in `;
  const message = `slice must be ${expected}, but is ${found}${describeValue(text)}`;
  return Object.assign(new RangeError(message), { code: 'ERR_OUT_OF_RANGE' });
}
