/** Codes of bitsandbytes in 4 bits: two a byte, the first in the high bits, with scales for blocks of the flat tensor. */

/** Where the values lie in the flat tensor. */
interface FlatPart {
  /** Position of the first value. */
  readonly first: number;
  readonly blockLength: number;
}

/**
 * Multiplies numbers of a code book by scales.
 *
 * @param bytes from the byte of the first value on
 * @param scales from the block of the first value on
 */
export function decodeFlat(
  bytes: Uint8Array,
  map: Float32Array,
  { first, blockLength }: FlatPart,
  scales: Float32Array,
  into: Float32Array,
): void {
  // In the middle of a byte: its low bits are the first value.
  const odd = first % 2;
  let block = 0;
  let end = blockLength - (first % blockLength);
  for (let i = 0; i < into.length; block++, end += blockLength) {
    const scale = scales[block] as number;
    const last = Math.min(end, into.length);
    if (((i + odd) & 1) === 1) {
      into[i] = (map[(bytes[(i + odd) >> 1] as number) & 15] as number) * scale;
      i++;
    }
    for (; i + 1 < last; i += 2) {
      const byte = bytes[(i + odd) >> 1] as number;
      into[i] = (map[byte >> 4] as number) * scale;
      into[i + 1] = (map[byte & 15] as number) * scale;
    }
    if (i < last) {
      into[i] = (map[(bytes[(i + odd) >> 1] as number) >> 4] as number) * scale;
      i++;
    }
  }
}

/** Scales that are quantized themselves: `map[code] * absmax[block] + offset`, rounded after each step. */
export function decodeNested(
  codes: Uint8Array,
  map: Float32Array,
  { first, blockLength }: FlatPart,
  absmax: Float32Array,
  offset: number,
  into: Float32Array,
): void {
  for (let i = 0; i < into.length; i++) {
    const scale = absmax[Math.floor((first + i) / blockLength)] as number;
    into[i] = Math.fround((map[codes[i] as number] as number) * scale) + offset;
  }
}
