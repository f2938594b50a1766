/**
 * Casts elements of one floating-point dtype to another, bit by bit as torch does: by way of float32, so
 * F64 is rounded twice. Data and host are little-endian.
 */

import { DTYPES, type Dtype } from '../../header/dtype.js';
import { cut } from '../../work/byte-ranges.js';
import { encodeBF16, encodeSmallFloat } from './encode.js';
import { SMALL_FLOATS } from './small-floats.js';
import { convertToFloat32 } from './to-float32.js';

/** The dtypes that can be cast. */
export const CAST_SOURCES = ['F32', 'F64', 'F16', 'BF16'] as const;
/** The dtypes to cast to. */
export const CAST_TARGETS: readonly CastTarget[] = ['F32', 'F16', 'BF16', 'F8_E4M3', 'F8_E5M2'];

/** A dtype that can be cast. */
export type CastSource = (typeof CAST_SOURCES)[number];
/** A dtype to cast to. */
export type CastTarget = 'F32' | 'F16' | 'BF16' | 'F8_E4M3' | 'F8_E5M2';

/** Whether elements of the dtype can be cast. */
export function isCastSource(dtype: Dtype): dtype is CastSource {
  return (CAST_SOURCES as readonly Dtype[]).includes(dtype);
}

/** Whether elements can be cast to the dtype. */
export function isCastTarget(dtype: Dtype): dtype is CastTarget {
  return (CAST_TARGETS as readonly Dtype[]).includes(dtype);
}

/** Source and target dtype. */
export interface Cast {
  readonly from: CastSource;
  readonly to: CastTarget;
}

/** Returns the cast from one dtype to another; null for the same dtype, undefined when no cast exists. */
export function castOf(from: Dtype, to: Dtype): Cast | null | undefined {
  if (from === to) return null;
  return isCastSource(from) && isCastTarget(to) ? { from, to } : undefined;
}

/** Elements cast at a time. */
const BLOCK_LENGTH = 4096;

/**
 * Casts packed elements to another dtype. Returns how many were too large: finite values that became infinity;
 * for F8_E4M3, which lacks infinity, all values that became its largest number.
 *
 * @param bytes the elements, at any alignment
 * @param output room for as many of the other dtype, at any alignment; not over the same memory
 */
export function castInTypeScript(
  from: CastSource,
  to: CastTarget,
  bytes: Uint8Array,
  output: Uint8Array,
): number {
  const [sourceBytes, targetBytes] = [DTYPES[from].bits / 8, DTYPES[to].bits / 8];
  const count = bytes.length / sourceBytes;
  const values = new Float32Array(Math.min(count, BLOCK_LENGTH));
  const patterns = new (targetBytes === 2 ? Uint16Array : Uint8Array)(values.length);
  let tooLarge = 0;
  for (const { begin, end } of cut(0, count, BLOCK_LENGTH)) {
    const length = end - begin;
    const part = bytes.subarray(begin * sourceBytes, end * sourceBytes);
    const block = values.subarray(0, length);
    convertToFloat32(from, part, block);
    const words = new Int32Array(values.buffer, 0, length);
    const infinite = from === 'F64' ? finishF64(part, words) : 0;
    // F8_E4M3 has no infinity; `encode` counts these.
    if (to !== 'F8_E4M3') tooLarge += infinite;
    const encoded = to === 'F32' ? block : patterns.subarray(0, length);
    if (to !== 'F32') tooLarge += encode(from, to, words, encoded as typeof patterns);
    const encodedBytes = new Uint8Array(encoded.buffer, 0, length * targetBytes);
    output.set(encodedBytes, begin * targetBytes);
  }
  return tooLarge;
}

/**
 * Gives NaN the sign and the upper bits of the payload of the double, as processors do. Returns how many
 * finite doubles became infinite.
 */
function finishF64(bytes: Uint8Array, words: Int32Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let tooLarge = 0;
  for (let i = 0; i < words.length; i++) {
    const magnitude = (words[i] as number) & 0x7fffffff;
    if (magnitude < 0x7f800000) continue;
    const [low, high] = [view.getUint32(8 * i, true), view.getInt32(8 * i + 4, true)];
    if (magnitude > 0x7f800000) {
      const payload = ((high & 0xfffff) << 3) | (low >>> 29);
      words[i] = (high & 0x80000000) | 0x7fc00000 | payload;
    } else if ((high & 0x7fffffff) < 0x7ff00000) tooLarge++;
  }
  return tooLarge;
}

function encode(
  from: CastSource,
  to: Exclude<CastTarget, 'F32'>,
  words: Int32Array,
  output: Uint8Array | Uint16Array,
): number {
  const format = SMALL_FLOATS[to];
  if (format !== undefined) return encodeSmallFloat(words, output, format);
  // Torch's NaN.
  return encodeBF16(words, output, from === 'F16' ? 0x7fc0 : 0xffff);
}
