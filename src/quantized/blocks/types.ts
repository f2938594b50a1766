/** The block types of GGUF: rows of blocks that interleave codes with their scales. */

/** A block type. */
export interface BlockType {
  /** Values of a block. */
  readonly length: number;
  /** Bytes of a block. */
  readonly byteLength: number;
  /** Bits of a code. */
  readonly bits: number;
  /**
   * Offsets in a block of its numbers of two bytes, which big-endian files store with the high byte first; null where
   * other numbers are wider.
   */
  readonly words: readonly number[] | null;
}

function blockType(
  length: number,
  byteLength: number,
  bits: number,
  words: readonly number[] | null,
): BlockType {
  return { length, byteLength, bits, words };
}

/** By the name in ggml. */
export const BLOCK_TYPES: ReadonlyMap<string, BlockType> = new Map([
  ['Q4_0', blockType(32, 18, 4, [0])],
  ['Q4_1', blockType(32, 20, 4, [0, 2])],
  ['Q5_0', blockType(32, 22, 5, [0])],
  ['Q5_1', blockType(32, 24, 5, [0, 2])],
  ['Q8_0', blockType(32, 34, 8, [0])],
  ['Q8_1', blockType(32, 36, 8, [0, 2])],
  ['Q2_K', blockType(256, 84, 2, [80, 82])],
  ['Q3_K', blockType(256, 110, 3, [108])],
  ['Q4_K', blockType(256, 144, 4, [0, 2])],
  ['Q5_K', blockType(256, 176, 5, [0, 2])],
  ['Q6_K', blockType(256, 210, 6, [208])],
  ['Q8_K', blockType(256, 292, 8, null)],
  ['IQ1_S', blockType(256, 50, 1, null)],
  ['IQ1_M', blockType(256, 56, 1, null)],
  ['IQ2_XXS', blockType(256, 66, 2, null)],
  ['IQ2_XS', blockType(256, 74, 2, null)],
  ['IQ2_S', blockType(256, 82, 2, null)],
  ['IQ3_XXS', blockType(256, 98, 3, null)],
  ['IQ3_S', blockType(256, 110, 3, [0])],
  ['IQ4_NL', blockType(32, 18, 4, [0])],
  ['IQ4_XS', blockType(256, 136, 4, [0, 2])],
  ['TQ1_0', blockType(256, 54, 2, [52])],
  ['TQ2_0', blockType(256, 66, 2, [64])],
  ['MXFP4', blockType(32, 17, 4, [])],
  ['NVFP4', blockType(64, 36, 4, [])],
  ['Q1_0', blockType(128, 18, 1, [0])],
]);

const PREFIX = 'gguf-';

/** The scheme of a block type, as `Quantization.scheme` has it. */
export function blockScheme(type: string): string {
  return PREFIX + type.toLowerCase();
}

/** The block type of a scheme; undefined for any other scheme. */
export function blockTypeOf(scheme: string | undefined): string | undefined {
  if (scheme?.startsWith(PREFIX) !== true) return undefined;
  const type = scheme.slice(PREFIX.length).toUpperCase();
  return BLOCK_TYPES.has(type) ? type : undefined;
}
