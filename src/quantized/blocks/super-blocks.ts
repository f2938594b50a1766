/** Blocks of 256 values: groups whose scales and minimums are quantized themselves. */

import { type BlockKernel, halfAt, NONLINEAR } from './small-blocks.js';

export const decodeQ2_K: BlockKernel = (blocks, into) => {
  let at = 0;
  for (let block = 0; at < into.length; block += 84) {
    const d = halfAt(blocks, block + 80);
    const dmin = halfAt(blocks, block + 82);
    for (let group = 0; group < 16; group++) {
      const packed = blocks[block + group] as number;
      const scale = d * (packed & 15);
      const minimum = dmin * (packed >> 4);
      const codes = block + 16 + (group >> 3) * 32 + (group & 1) * 16;
      const shift = group & 6;
      for (let i = codes; i < codes + 16; i++) {
        into[at++] = scale * (((blocks[i] as number) >> shift) & 3) - minimum;
      }
    }
  }
};

export const decodeQ3_K: BlockKernel = (blocks, into) => {
  let at = 0;
  for (let block = 0; at < into.length; block += 110) {
    const d = halfAt(blocks, block + 108);
    for (let group = 0; group < 16; group++) {
      const scales = block + 96;
      const low = (blocks[scales + (group & 7)] as number) >> ((group >> 3) << 2);
      const high = (blocks[scales + 8 + (group & 3)] as number) >> ((group >> 2) << 1);
      const scale = d * (((low & 15) | ((high & 3) << 4)) - 32);
      const column = (group & 1) * 16;
      const codes = block + 32 + (group >> 3) * 32 + column;
      const shift = group & 6;
      const bit = group >> 1;
      for (let i = 0; i < 16; i++) {
        const isHigh = ((blocks[block + column + i] as number) >> bit) & 1;
        const code = ((blocks[codes + i] as number) >> shift) & 3;
        into[at++] = scale * (code - 4 + isHigh * 4);
      }
    }
  }
};

/** The scale of six bits of group `group` of Q4_K and Q5_K; `at` is that of the twelve bytes. */
function scaleAt(blocks: Uint8Array, at: number, group: number): number {
  if (group < 4) return (blocks[at + group] as number) & 63;
  const low = (blocks[at + 4 + group] as number) & 15;
  return low | (((blocks[at + group - 4] as number) >> 6) << 4);
}

/** The minimum of six bits. */
function minimumAt(blocks: Uint8Array, at: number, group: number): number {
  if (group < 4) return (blocks[at + group + 4] as number) & 63;
  const low = (blocks[at + 4 + group] as number) >> 4;
  return low | (((blocks[at + group] as number) >> 6) << 4);
}

/** Reads four codes of each half at once: words are several times as fast as bytes. */
export const decodeQ4_K: BlockKernel = (given, into) => {
  const blocks = given.byteOffset % 4 === 0 ? given : given.slice();
  const words = new Int32Array(blocks.buffer, blocks.byteOffset, blocks.length / 4);
  let at = 0;
  for (let block = 0; at < into.length; block += 144) {
    const d = halfAt(blocks, block);
    const dmin = halfAt(blocks, block + 2);
    for (let pair = 0; pair < 4; pair++) {
      const scale = d * scaleAt(blocks, block + 4, 2 * pair);
      const minimum = dmin * minimumAt(blocks, block + 4, 2 * pair);
      const nextScale = d * scaleAt(blocks, block + 4, 2 * pair + 1);
      const nextMinimum = dmin * minimumAt(blocks, block + 4, 2 * pair + 1);
      const codes = block / 4 + 4 + pair * 8;
      for (let i = codes; i < codes + 8; i++) {
        const word = words[i] as number;
        into[at] = scale * (word & 15) - minimum;
        into[at + 1] = scale * ((word >>> 8) & 15) - minimum;
        into[at + 2] = scale * ((word >>> 16) & 15) - minimum;
        into[at + 3] = scale * ((word >>> 24) & 15) - minimum;
        into[at + 32] = nextScale * ((word >>> 4) & 15) - nextMinimum;
        into[at + 33] = nextScale * ((word >>> 12) & 15) - nextMinimum;
        into[at + 34] = nextScale * ((word >>> 20) & 15) - nextMinimum;
        into[at + 35] = nextScale * (word >>> 28) - nextMinimum;
        at += 4;
      }
      at += 32;
    }
  }
};

export const decodeQ5_K: BlockKernel = (blocks, into) => {
  const lowValues = new Float32Array(32);
  const highValues = new Float32Array(32);
  let at = 0;
  for (let block = 0; at < into.length; block += 176) {
    const d = halfAt(blocks, block);
    const dmin = halfAt(blocks, block + 2);
    for (let pair = 0; pair < 4; pair++) {
      const scale = d * scaleAt(blocks, block + 4, 2 * pair);
      const minimum = dmin * minimumAt(blocks, block + 4, 2 * pair);
      const nextScale = d * scaleAt(blocks, block + 4, 2 * pair + 1);
      const nextMinimum = dmin * minimumAt(blocks, block + 4, 2 * pair + 1);
      for (let code = 0; code < 32; code++) {
        lowValues[code] = scale * code - minimum;
        highValues[code] = nextScale * code - nextMinimum;
      }
      const highBits = block + 16;
      const codes = block + 48 + pair * 32;
      for (let i = 0; i < 32; i++) {
        const bits = (blocks[highBits + i] as number) >> (2 * pair);
        const code = blocks[codes + i] as number;
        into[at + i] = lowValues[(code & 15) | ((bits & 1) << 4)] as number;
        into[at + i + 32] = highValues[(code >> 4) | ((bits & 2) << 3)] as number;
      }
      at += 64;
    }
  }
};

export const decodeQ6_K: BlockKernel = (blocks, into) => {
  const signed = new Int8Array(blocks.buffer, blocks.byteOffset, blocks.length);
  let at = 0;
  for (let block = 0; at < into.length; block += 210) {
    const d = halfAt(blocks, block + 208);
    for (let half = 0; half < 2; half++) {
      const highBits = block + 128 + half * 32;
      for (let part = 0; part < 2; part++) {
        // Sixteen columns of four rows of 32 values, each row with a separate scale.
        const scales = block + 192 + half * 8 + part;
        const first = d * (signed[scales] as number);
        const second = d * (signed[scales + 2] as number);
        const third = d * (signed[scales + 4] as number);
        const fourth = d * (signed[scales + 6] as number);
        const codes = block + half * 64 + part * 16;
        const begin = at + part * 16;
        for (let i = 0; i < 16; i++) {
          const high = blocks[highBits + part * 16 + i] as number;
          const low = blocks[codes + i] as number;
          const next = blocks[codes + 32 + i] as number;
          into[begin + i] = first * (((low & 15) | ((high & 3) << 4)) - 32);
          into[begin + i + 32] = second * (((next & 15) | ((high & 12) << 2)) - 32);
          into[begin + i + 64] = third * (((low >> 4) | (high & 48)) - 32);
          into[begin + i + 96] = fourth * (((next >> 4) | ((high & 192) >> 2)) - 32);
        }
      }
      at += 128;
    }
  }
};

export const decodeQ8_K: BlockKernel = (blocks, into) => {
  const view = new DataView(blocks.buffer, blocks.byteOffset, blocks.length);
  const codes = new Int8Array(blocks.buffer, blocks.byteOffset, blocks.length);
  let at = 0;
  for (let block = 0; at < into.length; block += 292) {
    const d = view.getFloat32(block, true);
    for (let i = block + 4; i < block + 260; i++) into[at++] = (codes[i] as number) * d;
  }
};

export const decodeIQ4_XS: BlockKernel = (blocks, into) => {
  const values = new Float32Array(16);
  let at = 0;
  for (let block = 0; at < into.length; block += 136) {
    const d = halfAt(blocks, block);
    const highs = (blocks[block + 2] as number) | ((blocks[block + 3] as number) << 8);
    for (let group = 0; group < 8; group++) {
      const low = (blocks[block + 4 + (group >> 1)] as number) >> ((group & 1) * 4);
      const scale = d * (((low & 15) | (((highs >> (2 * group)) & 3) << 4)) - 32);
      for (let code = 0; code < 16; code++) values[code] = (NONLINEAR[code] as number) * scale;
      const codes = block + 8 + group * 16;
      for (let i = codes; i < codes + 16; i++) {
        const code = blocks[i] as number;
        into[at] = values[code & 15] as number;
        into[at + 16] = values[code >> 4] as number;
        at++;
      }
      at += 16;
    }
  }
};

/** Ternary digits, five in a byte as a fraction of 256. */
export const decodeTQ1_0: BlockKernel = (blocks, into) => {
  let at = 0;
  for (let block = 0; at < into.length; block += 54) {
    const d = halfAt(blocks, block + 52);
    for (const [first, count, digits] of [
      [block, 32, 5],
      [block + 32, 16, 5],
      [block + 48, 4, 4],
    ] as const) {
      for (let digit = 0, power = 1; digit < digits; digit++, power *= 3) {
        for (let i = first; i < first + count; i++) {
          const fraction = ((blocks[i] as number) * power) & 255;
          into[at++] = (((fraction * 3) >> 8) - 1) * d;
        }
      }
    }
  }
};

export const decodeTQ2_0: BlockKernel = (blocks, into) => {
  let at = 0;
  for (let block = 0; at < into.length; block += 66) {
    const d = halfAt(blocks, block + 64);
    for (let begin = block; begin < block + 64; begin += 32) {
      for (let shift = 0; shift < 8; shift += 2) {
        for (let i = begin; i < begin + 32; i++) {
          into[at++] = ((((blocks[i] as number) >> shift) & 3) - 1) * d;
        }
      }
    }
  }
};
