/** Blocks of IQ1, IQ2 and IQ3: numbers of entries in a codebook, with signs and scales. */

import { codebook } from './codebooks.js';
import { type BlockKernel, halfAt } from './small-blocks.js';

/** Writes `count` values of an entry; bit i of `signs` negates value i. */
function writeEntry(
  book: Float32Array,
  first: number,
  count: number,
  scale: number,
  signs: number,
  into: Float32Array,
  at: number,
): void {
  for (let i = 0; i < count; i++) {
    const value = (book[first + i] as number) * scale;
    into[at + i] = ((signs >> i) & 1) === 1 ? -value : value;
  }
}

/** Eight signs of seven bits: the number of negative ones is even. */
function evenSigns(bits: number): number {
  let parity = bits ^ (bits >> 4);
  parity ^= parity >> 2;
  parity ^= parity >> 1;
  return bits | ((parity & 1) << 7);
}

function uint16At(bytes: Uint8Array, at: number): number {
  return (bytes[at] as number) | ((bytes[at + 1] as number) << 8);
}

function uint32At(bytes: Uint8Array, at: number): number {
  return (uint16At(bytes, at) | (uint16At(bytes, at + 2) << 16)) >>> 0;
}

/** One of the numbers of four bits from a position on. */
function nibbleAt(bytes: Uint8Array, at: number, index: number): number {
  return ((bytes[at + (index >> 1)] as number) >> ((index & 1) * 4)) & 15;
}

export const decodeIQ2_XXS: BlockKernel = (blocks, into) => {
  const book = codebook('IQ2_XXS');
  let at = 0;
  for (let block = 0; at < into.length; block += 66) {
    const d = halfAt(blocks, block);
    for (let group = block + 2; group < block + 66; group += 8) {
      const packed = uint32At(blocks, group + 4);
      const scale = d * (0.5 + (packed >>> 28)) * 0.25;
      for (let part = 0; part < 4; part++, at += 8) {
        const signs = evenSigns((packed >>> (7 * part)) & 127);
        writeEntry(book, (blocks[group + part] as number) * 8, 8, scale, signs, into, at);
      }
    }
  }
};

export const decodeIQ2_XS: BlockKernel = (blocks, into) => {
  const book = codebook('IQ2_XS');
  let at = 0;
  for (let block = 0; at < into.length; block += 74) {
    const d = halfAt(blocks, block);
    for (let part = 0; part < 32; part++, at += 8) {
      const code = uint16At(blocks, block + 2 + 2 * part);
      const scale = d * (0.5 + nibbleAt(blocks, block + 66, part >> 1)) * 0.25;
      writeEntry(book, (code & 511) * 8, 8, scale, evenSigns(code >> 9), into, at);
    }
  }
};

export const decodeIQ2_S: BlockKernel = (blocks, into) => {
  const book = codebook('IQ2_S');
  let at = 0;
  for (let block = 0; at < into.length; block += 82) {
    const d = halfAt(blocks, block);
    for (let part = 0; part < 32; part++, at += 8) {
      const high = ((blocks[block + 66 + (part >> 2)] as number) >> (2 * (part & 3))) & 3;
      const entry = (blocks[block + 2 + part] as number) | (high << 8);
      const scale = d * (0.5 + nibbleAt(blocks, block + 74, part >> 1)) * 0.25;
      writeEntry(book, entry * 8, 8, scale, blocks[block + 34 + part] as number, into, at);
    }
  }
};

export const decodeIQ3_XXS: BlockKernel = (blocks, into) => {
  const book = codebook('IQ3_XXS');
  let at = 0;
  for (let block = 0; at < into.length; block += 98) {
    const d = halfAt(blocks, block);
    for (let group = 0; group < 8; group++) {
      const packed = uint32At(blocks, block + 66 + 4 * group);
      const scale = d * (0.5 + (packed >>> 28)) * 0.5;
      for (let part = 0; part < 4; part++, at += 8) {
        const signs = evenSigns((packed >>> (7 * part)) & 127);
        const codes = block + 2 + group * 8 + 2 * part;
        writeEntry(book, (blocks[codes] as number) * 4, 4, scale, signs, into, at);
        writeEntry(book, (blocks[codes + 1] as number) * 4, 4, scale, signs >> 4, into, at + 4);
      }
    }
  }
};

export const decodeIQ3_S: BlockKernel = (blocks, into) => {
  const book = codebook('IQ3_S');
  let at = 0;
  for (let block = 0; at < into.length; block += 110) {
    const d = halfAt(blocks, block);
    for (let part = 0; part < 64; part++, at += 4) {
      const high = ((blocks[block + 66 + (part >> 3)] as number) >> (part & 7)) & 1;
      const entry = (blocks[block + 2 + part] as number) | (high << 8);
      const scale = d * (1 + 2 * nibbleAt(blocks, block + 106, part >> 3));
      const signs = nibbleAt(blocks, block + 74, part);
      writeEntry(book, entry * 4, 4, scale, signs, into, at);
    }
  }
};

/** A difference that IQ1 adds to all values of a group. */
const DELTA = 0.125;

/** Writes the eight values of an entry, each with a difference. */
function writeShifted(
  book: Float32Array,
  entry: number,
  scale: number,
  delta: number,
  into: Float32Array,
  at: number,
): void {
  for (let i = 0; i < 8; i++) into[at + i] = scale * ((book[entry * 8 + i] as number) + delta);
}

export const decodeIQ1_S: BlockKernel = (blocks, into) => {
  const book = codebook('IQ1_S');
  let at = 0;
  for (let block = 0; at < into.length; block += 50) {
    const d = halfAt(blocks, block);
    for (let group = 0; group < 8; group++) {
      const packed = uint16At(blocks, block + 34 + 2 * group);
      const scale = d * (2 * ((packed >> 12) & 7) + 1);
      const delta = packed < 0x8000 ? DELTA : -DELTA;
      for (let part = 0; part < 4; part++, at += 8) {
        const low = blocks[block + 2 + 4 * group + part] as number;
        writeShifted(book, low | (((packed >> (3 * part)) & 7) << 8), scale, delta, into, at);
      }
    }
  }
};

/** The float16 scale is in the high bits of four numbers. */
export const decodeIQ1_M: BlockKernel = (blocks, into) => {
  const book = codebook('IQ1_S');
  const half = new Uint8Array(2);
  let at = 0;
  for (let block = 0; at < into.length; block += 56) {
    const scales = block + 48;
    half[0] = ((blocks[scales + 1] as number) >> 4) | ((blocks[scales + 3] as number) & 0xf0);
    half[1] = ((blocks[scales + 5] as number) >> 4) | ((blocks[scales + 7] as number) & 0xf0);
    const d = halfAt(half, 0);
    for (let part = 0; part < 32; part++, at += 8) {
      const packed = uint16At(blocks, scales + 2 * (part >> 3));
      const scale = d * (2 * ((packed >> (3 * ((part >> 1) & 3))) & 7) + 1);
      const high = nibbleAt(blocks, block + 32, part);
      const entry = (blocks[block + part] as number) | ((high & 7) << 8);
      writeShifted(book, entry, scale, (high & 8) === 0 ? DELTA : -DELTA, into, at);
    }
  }
};
