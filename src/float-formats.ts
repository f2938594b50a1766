/**
 * Conversion of every dtype to float32. Data and host are little-endian.
 *
 * Integers and F64 are rounded once, to nearest even; everything narrower than float32 is exact.
 * `docs/dtypes.md` names the implementation that each dtype is compared with, pattern by pattern.
 */

import { DTYPES, type Dtype } from './dtype.js';

/** Reads whole elements, aligned to 4 bytes (8 for F64), and fills the whole output. */
type Kernel = (bytes: Uint8Array, output: Float32Array, dtype: Dtype) => void;

/**
 * Bytes that misaligned input is copied by, to convert the copy. A multiple of 3 and of 8, so that
 * every dtype has whole elements in a block.
 */
const BLOCK_LENGTH = 3 << 14;

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

/**
 * Converts packed elements to float32: a copy in C order, two values (real, imaginary) per element
 * of C64. BOOL gives 1 for every byte but 0. F4 holds two elements per byte, the first in the low
 * four bits; F6 is read as a little-endian bit stream, element i in bits 6i to 6i + 5.
 *
 * @param bytes the elements, exactly, at any alignment
 * @param elementCount number of elements that `bytes` holds
 * @throws RangeError when the result is larger than a typed array can be
 */
export function convertToFloat32(
  dtype: Dtype,
  bytes: Uint8Array,
  elementCount: number,
): Float32Array<ArrayBuffer> {
  const output = new Float32Array(dtype === 'C64' ? elementCount * 2 : elementCount);
  const convert = KERNELS[dtype];
  if (bytes.byteOffset % Math.max(4, DTYPES[dtype].data.BYTES_PER_ELEMENT) === 0) {
    convert(bytes, output, dtype);
    return output;
  }
  const block = new Uint8Array(Math.min(BLOCK_LENGTH, bytes.length));
  const valuesPerByte = output.length / bytes.length;
  for (let begin = 0; begin < bytes.length; begin += BLOCK_LENGTH) {
    const part = bytes.subarray(begin, begin + BLOCK_LENGTH);
    block.set(part);
    const first = begin * valuesPerByte;
    const last = first + part.length * valuesPerByte;
    convert(block.subarray(0, part.length), output.subarray(first, last), dtype);
  }
  return output;
}

/** Number types of JavaScript: storing into a Float32Array rounds once. */
function convertNumbers(bytes: Uint8Array, output: Float32Array, dtype: Dtype): void {
  const { data: Data } = DTYPES[dtype];
  const length = bytes.length / Data.BYTES_PER_ELEMENT;
  output.set(new Data(bytes.buffer, bytes.byteOffset, length) as ArrayLike<number>);
}

// The loops below read 32 bits at a time: the bounds check and the load cost more than the rest.

function wordsOf(view: Uint8Array | Float32Array): Int32Array {
  return new Int32Array(view.buffer, view.byteOffset, view.byteLength >> 2);
}

function convertBytes(bytes: Uint8Array, output: Float32Array, dtype: Dtype): void {
  const table = tableOf(dtype);
  const words = wordsOf(bytes);
  let next = 0;
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as number;
    output[next] = table[word & 255] as number;
    output[next + 1] = table[(word >>> 8) & 255] as number;
    output[next + 2] = table[(word >>> 16) & 255] as number;
    output[next + 3] = table[word >>> 24] as number;
    next += 4;
  }
  for (; next < bytes.length; next++) output[next] = table[bytes[next] as number] as number;
}

function convertF16(bytes: Uint8Array, output: Float32Array, dtype: Dtype): void {
  const table = tableOf(dtype);
  const words = wordsOf(bytes);
  let next = 0;
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as number;
    output[next] = table[word & 0xffff] as number;
    output[next + 1] = table[word >>> 16] as number;
    next += 2;
  }
  if (next < output.length) output[next] = table[lastHalfWord(bytes)] as number;
}

/** A BF16 is the upper half of a float32. */
function convertBF16(bytes: Uint8Array, output: Float32Array): void {
  const patterns = wordsOf(output);
  const words = wordsOf(bytes);
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
  const table = tableOf(dtype);
  let next = 0;
  for (let i = 0; i < bytes.length; i++) {
    const pair = bytes[i] as number;
    output[next] = table[pair & 15] as number;
    output[next + 1] = table[pair >> 4] as number;
    next += 2;
  }
}

function convertSixBits(bytes: Uint8Array, output: Float32Array, dtype: Dtype): void {
  const table = tableOf(dtype);
  let next = 0;
  for (let i = 0; i < bytes.length; i += 3) {
    const [low, middle, high] = [bytes[i], bytes[i + 1], bytes[i + 2]] as [number, number, number];
    output[next] = table[low & 63] as number;
    output[next + 1] = table[(low >> 6) | ((middle & 15) << 2)] as number;
    output[next + 2] = table[(middle >> 4) | ((high & 3) << 4)] as number;
    output[next + 3] = table[high >> 2] as number;
    next += 4;
  }
}

const TWO_POW_32 = 4294967296;
/** The upper halves of all integers below 2^53 are below this: a double holds those exactly. */
const EXACT_UPPER_HALVES = 0x200000;

function convertI64(bytes: Uint8Array, output: Float32Array): void {
  const words = wordsOf(bytes);
  for (let i = 0; i < output.length; i++) {
    const low = words[2 * i] as number;
    const high = words[2 * i + 1] as number;
    const exact = high < EXACT_UPPER_HALVES && high >= -EXACT_UPPER_HALVES;
    output[i] = high * TWO_POW_32 + ((exact ? low : withStickyBit(low)) >>> 0);
  }
}

function convertU64(bytes: Uint8Array, output: Float32Array): void {
  const words = wordsOf(bytes);
  for (let i = 0; i < output.length; i++) {
    const low = words[2 * i] as number;
    const high = (words[2 * i + 1] as number) >>> 0;
    const exact = high < EXACT_UPPER_HALVES;
    output[i] = high * TWO_POW_32 + ((exact ? low : withStickyBit(low)) >>> 0);
  }
}

/**
 * The low word of a large integer for the way through a double, which keeps 53 bits of 64: the
 * lowest 11 bits are cleared, and bit 11 is set if one of them was. The double is then exact, and
 * on the same side of every float32 tie, all of which are multiples of 2^29 from 2^53 on.
 */
function withStickyBit(low: number): number {
  return (low & 0x7ff) === 0 ? low : (low & 0xfffff800) | 0x800;
}

interface SmallFloat {
  readonly exponentBits: number;
  readonly mantissaBits: number;
  readonly bias: number;
  /**
   * What is not a finite number: as in IEEE 754; only all bits set, with any sign; only the pattern
   * of minus zero; nothing.
   */
  readonly special: 'ieee' | 'all-ones' | 'minus-zero' | 'none';
}

const SMALL_FLOATS: Readonly<Partial<Record<Dtype, SmallFloat>>> = {
  F4: { exponentBits: 2, mantissaBits: 1, bias: 1, special: 'none' },
  F6_E2M3: { exponentBits: 2, mantissaBits: 3, bias: 1, special: 'none' },
  F6_E3M2: { exponentBits: 3, mantissaBits: 2, bias: 3, special: 'none' },
  F8_E5M2: { exponentBits: 5, mantissaBits: 2, bias: 15, special: 'ieee' },
  F8_E4M3: { exponentBits: 4, mantissaBits: 3, bias: 7, special: 'all-ones' },
  F8_E4M3FNUZ: { exponentBits: 4, mantissaBits: 3, bias: 8, special: 'minus-zero' },
  F8_E5M2FNUZ: { exponentBits: 5, mantissaBits: 2, bias: 16, special: 'minus-zero' },
  F16: { exponentBits: 5, mantissaBits: 10, bias: 15, special: 'ieee' },
};

const tables = new Map<Dtype, Float32Array>();

/** Values of all patterns of a dtype of at most 16 bits; made at its first use, kept for ever. */
function tableOf(dtype: Dtype): Float32Array {
  let table = tables.get(dtype);
  if (table === undefined) {
    const decode = patternDecoder(dtype);
    table = Float32Array.from({ length: 2 ** DTYPES[dtype].bits }, (_, pattern) => decode(pattern));
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

function decodeSmallFloat(pattern: number, format: SmallFloat): number {
  const { exponentBits, mantissaBits, bias, special } = format;
  const signBit = 1 << (exponentBits + mantissaBits);
  const magnitude = pattern & (signBit - 1);
  const exponent = magnitude >> mantissaBits;
  const fraction = (magnitude & ((1 << mantissaBits) - 1)) / 2 ** mantissaBits;
  const sign = (pattern & signBit) === 0 ? 1 : -1;
  if (special === 'ieee' && exponent === (1 << exponentBits) - 1) {
    return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  }
  if (special === 'all-ones' && magnitude === signBit - 1) return Number.NaN;
  if (special === 'minus-zero' && pattern === signBit) return Number.NaN;
  // Exponent 0 stands for the subnormal numbers, which lack the leading 1.
  return exponent === 0
    ? sign * fraction * 2 ** (1 - bias)
    : sign * (1 + fraction) * 2 ** (exponent - bias);
}
