/**
 * Converts every dtype to float32. Data and host are little-endian.
 *
 * Integers and F64 are rounded once, to nearest even; everything narrower than float32 is exact.
 * `docs/internals/dtypes.md` names the implementation that each dtype is compared with, pattern by pattern.
 */

import { DTYPES, type Dtype } from '../../header/dtype.js';
import { cut } from '../../work/byte-ranges.js';
import { decodeSmallFloat, SMALL_FLOATS } from './small-floats.js';

/**
 * Reads whole elements, aligned to 4 bytes (8 for F64), and fills the whole output. It writes bit
 * patterns: storing numbers could change the patterns of NaN.
 */
type Kernel = (bytes: Uint8Array, output: Float32Array, dtype: Dtype) => void;

/**
 * Misaligned input is copied in blocks of this many bytes. A multiple of 3 and of 8, so that a block has whole
 * elements of every dtype.
 */
const WIDENED_LENGTH = 3 << 14;

const KERNELS: Readonly<Record<Dtype, Kernel>> = {
  BOOL: convertBytes,
  F4: convertNibbles,
  F6_E2M3: convertSixBits,
  F6_E3M2: convertSixBits,
  U8: convertNumbers,
  I8: convertNumbers,
  F8_E5M2: convertBytes,
  F8_E4M3: convertBytes,
  F8_E8M0: convertBytes,
  F8_E4M3FNUZ: convertBytes,
  F8_E5M2FNUZ: convertBytes,
  I16: convertNumbers,
  U16: convertNumbers,
  F16: convertF16,
  BF16: convertBF16,
  I32: convertNumbers,
  U32: convertNumbers,
  F32: convertNumbers,
  C64: convertNumbers,
  F64: convertNumbers,
  I64: convertI64,
  U64: convertU64,
};

/** Number of float32 values for a number of elements: two for one of C64. */
export function valueCountOf(dtype: Dtype, elementCount: number): number {
  return dtype === 'C64' ? elementCount * 2 : elementCount;
}

/**
 * Converts packed elements to float32, in C order, two values (real, imaginary) per element of C64.
 * BOOL gives 1 for every byte but 0. F4 holds two elements per byte, the first in the low four bits;
 * F6 is read as a little-endian bit stream, element i in bits 6i to 6i + 5.
 *
 * @param bytes the elements, exactly, at any alignment
 * @param output as many values as the elements have; not over the same memory
 */
export function convertToFloat32(dtype: Dtype, bytes: Uint8Array, output: Float32Array): void {
  const convert = KERNELS[dtype];
  if (bytes.byteOffset % Math.max(4, DTYPES[dtype].data.BYTES_PER_ELEMENT) === 0) {
    convert(bytes, output, dtype);
    return;
  }
  const block = new Uint8Array(Math.min(WIDENED_LENGTH, bytes.length));
  const valuesPerByte = output.length / bytes.length;
  for (const { begin, end } of cut(0, bytes.length, WIDENED_LENGTH)) {
    const part = bytes.subarray(begin, end);
    block.set(part);
    const first = begin * valuesPerByte;
    const last = first + part.length * valuesPerByte;
    convert(block.subarray(0, part.length), output.subarray(first, last), dtype);
  }
}

/** Converts dtypes that JavaScript reads as numbers: storing into a Float32Array rounds once. */
function convertNumbers(bytes: Uint8Array, output: Float32Array, dtype: Dtype): void {
  const { data: Data } = DTYPES[dtype];
  const length = bytes.length / Data.BYTES_PER_ELEMENT;
  output.set(new Data(bytes.buffer, bytes.byteOffset, length) as ArrayLike<number>);
}

// The loops below read 32 bits at a time: the bounds check and the load cost more than the rest.

function int32Words(view: Uint8Array | Float32Array): Int32Array {
  return new Int32Array(view.buffer, view.byteOffset, view.byteLength >> 2);
}

function convertBytes(bytes: Uint8Array, output: Float32Array, dtype: Dtype): void {
  const table = decodingTable(dtype);
  const patterns = int32Words(output);
  const words = int32Words(bytes);
  let next = 0;
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as number;
    patterns[next] = table[word & 255] as number;
    patterns[next + 1] = table[(word >>> 8) & 255] as number;
    patterns[next + 2] = table[(word >>> 16) & 255] as number;
    patterns[next + 3] = table[word >>> 24] as number;
    next += 4;
  }
  for (; next < bytes.length; next++) patterns[next] = table[bytes[next] as number] as number;
}

function convertF16(bytes: Uint8Array, output: Float32Array, dtype: Dtype): void {
  const table = decodingTable(dtype);
  const patterns = int32Words(output);
  const words = int32Words(bytes);
  let next = 0;
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as number;
    patterns[next] = table[word & 0xffff] as number;
    patterns[next + 1] = table[word >>> 16] as number;
    next += 2;
  }
  if (next < output.length) patterns[next] = table[lastHalfWord(bytes)] as number;
}

/** A BF16 is the upper half of a float32. */
function convertBF16(bytes: Uint8Array, output: Float32Array): void {
  const patterns = int32Words(output);
  const words = int32Words(bytes);
  let next = 0;
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as number;
    patterns[next] = word << 16;
    patterns[next + 1] = word & 0xffff0000;
    next += 2;
  }
  if (next < output.length) patterns[next] = lastHalfWord(bytes) << 16;
}

function lastHalfWord(bytes: Uint8Array): number {
  return (bytes.at(-2) as number) | ((bytes.at(-1) as number) << 8);
}

function convertNibbles(bytes: Uint8Array, output: Float32Array, dtype: Dtype): void {
  const table = decodingTable(dtype);
  const patterns = int32Words(output);
  let next = 0;
  for (let i = 0; i < bytes.length; i++) {
    const pair = bytes[i] as number;
    patterns[next] = table[pair & 15] as number;
    patterns[next + 1] = table[pair >> 4] as number;
    next += 2;
  }
}

function convertSixBits(bytes: Uint8Array, output: Float32Array, dtype: Dtype): void {
  const table = decodingTable(dtype);
  const patterns = int32Words(output);
  let next = 0;
  for (let i = 0; i < bytes.length; i += 3) {
    const [low, middle, high] = [bytes[i], bytes[i + 1], bytes[i + 2]] as [number, number, number];
    patterns[next] = table[low & 63] as number;
    patterns[next + 1] = table[(low >> 6) | ((middle & 15) << 2)] as number;
    patterns[next + 2] = table[(middle >> 4) | ((high & 3) << 4)] as number;
    patterns[next + 3] = table[high >> 2] as number;
    next += 4;
  }
}

const TWO_POW_32 = 4294967296;
/** An integer whose upper half is below this is below 2^53: a double holds it exactly. */
const EXACT_UPPER_HALVES = 0x200000;

function convertI64(bytes: Uint8Array, output: Float32Array): void {
  const words = int32Words(bytes);
  for (let i = 0; i < output.length; i++) {
    const low = words[2 * i] as number;
    const high = words[2 * i + 1] as number;
    const exact = high < EXACT_UPPER_HALVES && high >= -EXACT_UPPER_HALVES;
    output[i] = high * TWO_POW_32 + ((exact ? low : withStickyBit(low)) >>> 0);
  }
}

function convertU64(bytes: Uint8Array, output: Float32Array): void {
  const words = int32Words(bytes);
  for (let i = 0; i < output.length; i++) {
    const low = words[2 * i] as number;
    const high = (words[2 * i + 1] as number) >>> 0;
    const exact = high < EXACT_UPPER_HALVES;
    output[i] = high * TWO_POW_32 + ((exact ? low : withStickyBit(low)) >>> 0);
  }
}

/**
 * Prepares the low word of a large integer for conversion by a double, which keeps 53 bits of 64:
 * clears the lowest 11 bits, and sets bit 11 if one of them was set. The double is then exact, and on
 * the same side of every float32 tie: from 2^53 on, all ties are multiples of 2^29.
 */
function withStickyBit(low: number): number {
  return (low & 0x7ff) === 0 ? low : (low & 0xfffff800) | 0x800;
}

const tables = new Map<Dtype, Int32Array>();

/** Returns the float32 pattern of every pattern of a dtype of at most 16 bits; made on first use and kept. */
function decodingTable(dtype: Dtype): Int32Array {
  let table = tables.get(dtype);
  if (table === undefined) {
    const decode = patternDecoder(dtype);
    table = new Int32Array(2 ** DTYPES[dtype].bits);
    const values = new Float32Array(table.buffer);
    for (let pattern = 0; pattern < table.length; pattern++) {
      const value = decode(pattern);
      if (Number.isNaN(value)) table[pattern] = nanOf(dtype, pattern);
      else values[pattern] = value;
    }
    tables.set(dtype, table);
  }
  return table;
}

function patternDecoder(dtype: Dtype): (pattern: number) => number {
  const format = SMALL_FLOATS[dtype];
  if (format !== undefined) return (pattern) => decodeSmallFloat(pattern, format);
  if (dtype === 'BOOL') return (pattern) => (pattern === 0 ? 0 : 1);
  // F8_E8M0: an exponent without sign or mantissa.
  return (pattern) => (pattern === 255 ? Number.NaN : 2 ** (pattern - 127));
}

/** A quiet NaN, as the addon makes it: with the sign, and the payload where the format has one. */
function nanOf(dtype: Dtype, pattern: number): number {
  const format = SMALL_FLOATS[dtype];
  if (format === undefined) return 0x7fc00000;
  const { exponentBits, mantissaBits, special } = format;
  const sign = (pattern >> (exponentBits + mantissaBits)) << 31;
  const payload = special === 'ieee' ? pattern & ((1 << mantissaBits) - 1) : 0;
  return sign | 0x7fc00000 | (payload << (23 - mantissaBits));
}
