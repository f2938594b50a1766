/** Elements whose sum still is an exact integer: 2^20 numbers below 2^32 stay below 2^53. */
const BLOCK_WORDS = 2 ** 20;
const BLOCK_BYTES = BLOCK_WORDS * 4;

/**
 * The loop of `native/touch.c` in JavaScript, for machines without a compiler: the sum modulo 2^64
 * of the 64-bit little-endian words, the last one filled up with zeros.
 */
export function touchWords(bytes: Uint8Array): bigint {
  let sum = 0n;
  for (let offset = 0; offset < bytes.length; offset += BLOCK_BYTES) {
    const block = bytes.subarray(offset, offset + BLOCK_BYTES);
    let low = 0;
    let high = 0;
    const words = alignedWords(block);
    for (let index = 0; index < words.length; index += 2) {
      low += words[index] as number;
      high += words[index + 1] as number;
    }
    sum += BigInt(low) + (BigInt(high) << 32n);
  }
  return BigInt.asUintN(64, sum);
}

/** The block as an even number of 32-bit words: a view if it can be one, else a copy. */
function alignedWords(block: Uint8Array): Uint32Array {
  if (block.byteOffset % 4 === 0 && block.byteLength % 8 === 0) {
    return new Uint32Array(block.buffer, block.byteOffset, block.byteLength / 4);
  }
  const copy = new Uint8Array(Math.ceil(block.byteLength / 8) * 8);
  copy.set(block);
  return new Uint32Array(copy.buffer);
}
