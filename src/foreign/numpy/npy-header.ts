/** The header of a `.npy` array: magic, version, length, and a dictionary of three keys. */

import { isUtf8 } from 'node:buffer';
import { type ErrorContext, FormatError } from '../../errors/errors.js';
import { DTYPES, type Dtype } from '../../header/dtype.js';
import { itemTypeOf, type VoidDtype } from './item-types.js';
import { type Integer, type PythonLiteral, parseDictionary } from './literal.js';

const MAGIC = '\x93NUMPY';
const VERSION_AT = MAGIC.length;
const LENGTH_AT = VERSION_AT + 2;

/** NumPy's own readers refuse longer headers. */
const MAX_HEADER_BYTE_LENGTH = 10_000;

/** The longest start of a file that holds a header. */
export const MAX_NPY_START_BYTE_LENGTH: number = LENGTH_AT + 4 + MAX_HEADER_BYTE_LENGTH;

/** An array's facts. */
export interface NpyHeader {
  readonly dtype: Dtype;
  readonly isBigEndian: boolean;
  readonly itemByteLength: number;
  readonly shape: readonly Integer[];
  /** Distance of neighbours per dimension, in items: C or Fortran order. */
  readonly strides: readonly Integer[];
  /** Position of the items, in bytes from the start. */
  readonly dataBegin: number;
}

/** Whether bytes begin as an array does. */
export function isNpy(start: Uint8Array): boolean {
  for (let at = 0; at < MAGIC.length; at++) if (start[at] !== MAGIC.charCodeAt(at)) return false;
  return true;
}

/** Returns the end of the header, in bytes from the start; undefined when `start` is too short. */
export function npyHeaderEnd(start: Uint8Array): number | undefined {
  const isWide = start[VERSION_AT] !== 1;
  const begin = LENGTH_AT + (isWide ? 4 : 2);
  if (start.length < begin) return undefined;
  let length = 0;
  for (let at = begin - 1; at >= LENGTH_AT; at--) length = length * 256 + (start[at] as number);
  return begin + length;
}

function versionOf(start: Uint8Array): [major: number, minor: number] {
  return [start[VERSION_AT] ?? 0, start[VERSION_AT + 1] ?? 0];
}

/** Whether the start of an array has a version of the format that is read. */
export function isKnownVersion(start: Uint8Array): boolean {
  const [major, minor] = versionOf(start);
  return major >= 1 && major <= 3 && minor === 0;
}

/** The facts of a header, before its items get a dtype. */
export interface NpyInfo {
  readonly descr: PythonLiteral;
  readonly isFortran: boolean;
  readonly shape: readonly Integer[];
  /** Where the items begin, in bytes from the start. */
  readonly dataBegin: number;
}

/**
 * Parses a header with items of any kind.
 *
 * @param start the array's first bytes, up to the end of its header, `maxByteLength`, or its own end
 * @throws FormatError `SAFETENSORS_INVALID_NUMPY`, `SAFETENSORS_FOREIGN_LIMIT`
 */
export function parseNpyInfo(
  start: Uint8Array,
  context: ErrorContext,
  maxByteLength: number = MAX_NPY_START_BYTE_LENGTH,
): NpyInfo {
  const refuse = (message: string): never => {
    throw new FormatError('SAFETENSORS_INVALID_NUMPY', message, context);
  };
  if (!isNpy(start)) refuse('expected a NumPy array, which begins with \\x93NUMPY');
  const [major, minor] = versionOf(start);
  if (!isKnownVersion(start)) refuse(`expected version 1.0, 2.0 or 3.0, found ${major}.${minor}`);
  const dataBegin = npyHeaderEnd(start) ?? start.length + 1;
  if (dataBegin > maxByteLength) {
    const most = maxByteLength - MAX_NPY_START_BYTE_LENGTH + MAX_HEADER_BYTE_LENGTH;
    const message = `expected a header of at most ${most} bytes, found one that ends at byte ${dataBegin}`;
    throw new FormatError('SAFETENSORS_FOREIGN_LIMIT', message, context);
  }
  if (dataBegin > start.length) {
    refuse(`expected a header up to byte ${dataBegin}, found ${start.length} bytes`);
  }
  const text = decode(start, LENGTH_AT + (major === 1 ? 2 : 4), dataBegin, major);
  const pairs = parseDictionary(text, major < 3);
  if (pairs === undefined) {
    return refuse(
      "expected a header such as {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }",
    );
  }
  const values = new Map<string, PythonLiteral>(pairs);
  const descr = values.get('descr');
  const isFortran = values.get('fortran_order');
  const shape = shapeOf(values.get('shape'));
  const isComplete = descr !== undefined && typeof isFortran === 'boolean' && shape !== undefined;
  if (!isComplete || values.size !== pairs.length || pairs.length !== 3) {
    const found = pairs.map(([key]) => JSON.stringify(key.slice(0, 20))).slice(0, 5);
    return refuse(
      `expected just the keys descr, fortran_order and shape, found ${found.join(', ')}`,
    );
  }
  return { descr, isFortran, shape, dataBegin };
}

function shapeOf(value: PythonLiteral | undefined): readonly Integer[] | undefined {
  if (typeof value !== 'object' || !('tuple' in value)) return undefined;
  const { tuple } = value;
  const isInteger = (item: PythonLiteral): item is Integer =>
    typeof item === 'number' || typeof item === 'bigint';
  return tuple.every(isInteger) ? tuple : undefined;
}

/**
 * Parses a header of numeric items. Returns a FormatError `SAFETENSORS_UNSUPPORTED_TENSOR` for items that safetensors
 * cannot hold.
 *
 * @throws FormatError as `parseNpyInfo`
 */
export function parseNpyHeader(
  start: Uint8Array,
  voidDtype: VoidDtype | undefined,
  context: ErrorContext,
): NpyHeader | FormatError {
  const { descr, isFortran, shape, dataBegin } = parseNpyInfo(start, context);
  if (typeof descr !== 'string') {
    const message =
      'expected numbers, found records (a structured array); save their fields one by one';
    return new FormatError('SAFETENSORS_UNSUPPORTED_TENSOR', message, context);
  }
  const type = itemTypeOf(descr, voidDtype);
  if ('problem' in type) {
    const message = `expected numbers that safetensors can hold, found ${type.problem}`;
    const { advice } = type;
    return new FormatError('SAFETENSORS_UNSUPPORTED_TENSOR', message, { ...context, advice });
  }
  const { dtype, isBigEndian } = type;
  const itemByteLength = DTYPES[dtype].bits / 8;
  const strides = stridesOf(shape, isFortran);
  return { dtype, isBigEndian, itemByteLength, shape, strides, dataBegin };
}

/** Decodes the text of a header; empty when it should be UTF-8 and is not. */
function decode(start: Uint8Array, begin: number, end: number, major: number): string {
  const bytes = Buffer.from(start.buffer, start.byteOffset + begin, end - begin);
  if (major < 3) return bytes.toString('latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : '';
}

/** Returns strides in items: the last dimension innermost, in Fortran order the first. */
function stridesOf(shape: readonly Integer[], isFortran: boolean): Integer[] {
  const sizes = isFortran ? shape : shape.toReversed();
  let stride: Integer = 1;
  const strides = sizes.map((size) => {
    const own = stride;
    stride = product(stride, size);
    return own;
  });
  return isFortran ? strides : strides.reverse();
}

function product(a: Integer, b: Integer): Integer {
  const inNumbers = Number(a) * Number(b);
  return Number.isSafeInteger(inNumbers) ? inNumbers : BigInt(a) * BigInt(b);
}
