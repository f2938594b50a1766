/**
 * Blocks with one scale for a few dozen values. Products of a code and a float16 scale are exact in float32, so only
 * the sum with a minimum rounds, as in ggml.
 */

/** Decodes whole blocks, one after the other; `into` has room for exactly their values. */
export type BlockKernel = (blocks: Uint8Array, into: Float32Array) => void;

/** Codes of 4 bits, of values 0 to 15 in the low and 16 to 31 in the high bits: by a table of the sixteen values. */
function nibbleKernel(
  byteLength: number,
  first: number,
  fill: (blocks: Uint8Array, block: number, values: Float32Array) => void,
): BlockKernel {
  return (blocks, into) => {
    const values = new Float32Array(16);
    let at = 0;
    for (let block = 0; at < into.length; block += byteLength) {
      fill(blocks, block, values);
      const begin = block + first;
      for (let i = begin; i < begin + 16; i++) {
        const code = blocks[i] as number;
        into[at] = values[code & 15] as number;
        into[at + 16] = values[code >> 4] as number;
        at++;
      }
      at += 16;
    }
  };
}

export const decodeQ4_0: BlockKernel = nibbleKernel(18, 2, (blocks, block, values) => {
  const d = halfAt(blocks, block);
  for (let code = 0; code < 16; code++) values[code] = (code - 8) * d;
});

export const decodeQ4_1: BlockKernel = nibbleKernel(20, 4, (blocks, block, values) => {
  const d = halfAt(blocks, block);
  const m = halfAt(blocks, block + 2);
  for (let code = 0; code < 16; code++) values[code] = code * d + m;
});

/** Values of IQ4_NL and IQ4_XS. */
export const NONLINEAR: readonly number[] = [
  -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

export const decodeIQ4_NL: BlockKernel = nibbleKernel(18, 2, (blocks, block, values) => {
  const d = halfAt(blocks, block);
  for (let code = 0; code < 16; code++) values[code] = (NONLINEAR[code] as number) * d;
});

/** Twice the values of E2M1. */
const E2M1: readonly number[] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

export const decodeMXFP4: BlockKernel = nibbleKernel(17, 1, (blocks, block, values) => {
  const d = 2 ** ((blocks[block] as number) - 128);
  for (let code = 0; code < 16; code++) values[code] = (E2M1[code] as number) * d;
});

/** Four groups of 16, each with a scale of E4M3 without a sign. */
export const decodeNVFP4: BlockKernel = (blocks, into) => {
  const values = new Float32Array(16);
  let at = 0;
  for (let block = 0; at < into.length; block += 36) {
    for (let group = 0; group < 4; group++) {
      const d = unsignedE4M3(blocks[block + group] as number) / 2;
      for (let code = 0; code < 16; code++) values[code] = (E2M1[code] as number) * d;
      const begin = block + 4 + group * 8;
      for (let i = begin; i < begin + 8; i++) {
        const code = blocks[i] as number;
        into[at] = values[code & 15] as number;
        into[at + 8] = values[code >> 4] as number;
        at++;
      }
      at += 8;
    }
  }
};

function unsignedE4M3(pattern: number): number {
  if (pattern === 0 || pattern === 0x7f) return 0;
  const exponent = (pattern >> 3) & 15;
  const fraction = pattern & 7;
  return exponent === 0 ? fraction * 2 ** -9 : (8 + fraction) * 2 ** (exponent - 10);
}

/** Codes of 5 bits: the high bits of all 32 in one number. */
function fiveBitKernel(byteLength: number, first: number, hasMinimum: boolean): BlockKernel {
  return (blocks, into) => {
    const values = new Float32Array(32);
    let at = 0;
    for (let block = 0; at < into.length; block += byteLength) {
      const d = halfAt(blocks, block);
      const m = hasMinimum ? halfAt(blocks, block + 2) : 0;
      if (hasMinimum) for (let code = 0; code < 32; code++) values[code] = code * d + m;
      else for (let code = 0; code < 32; code++) values[code] = (code - 16) * d;
      const high = block + first;
      const low = high + 4;
      const begins =
        (blocks[high] as number) |
        ((blocks[high + 1] as number) << 8) |
        ((blocks[high + 2] as number) << 16) |
        ((blocks[high + 3] as number) << 24);
      for (let i = 0; i < 16; i++) {
        const code = blocks[low + i] as number;
        into[at + i] = values[(code & 15) | (((begins >>> i) & 1) << 4)] as number;
        into[at + i + 16] = values[(code >> 4) | (((begins >>> (i + 16)) & 1) << 4)] as number;
      }
      at += 32;
    }
  };
}

export const decodeQ5_0: BlockKernel = fiveBitKernel(22, 2, false);

export const decodeQ5_1: BlockKernel = fiveBitKernel(24, 4, true);

/** Signed bytes after a scale, and after other numbers that decoding does not need. */
function byteKernel(byteLength: number, first: number): BlockKernel {
  return (blocks, into) => {
    const halves = halfTable();
    const codes = new Int8Array(blocks.buffer, blocks.byteOffset, blocks.length);
    let at = 0;
    for (let block = 0; at < into.length; block += byteLength) {
      const pattern = (blocks[block] as number) | ((blocks[block + 1] as number) << 8);
      const d = halves[pattern] as number;
      const end = block + first + 32;
      for (let i = block + first; i < end; i += 8) {
        into[at] = (codes[i] as number) * d;
        into[at + 1] = (codes[i + 1] as number) * d;
        into[at + 2] = (codes[i + 2] as number) * d;
        into[at + 3] = (codes[i + 3] as number) * d;
        into[at + 4] = (codes[i + 4] as number) * d;
        into[at + 5] = (codes[i + 5] as number) * d;
        into[at + 6] = (codes[i + 6] as number) * d;
        into[at + 7] = (codes[i + 7] as number) * d;
        at += 8;
      }
    }
  };
}

export const decodeQ8_0: BlockKernel = byteKernel(34, 2);

export const decodeQ8_1: BlockKernel = byteKernel(36, 4);

export const decodeQ1_0: BlockKernel = (blocks, into) => {
  let at = 0;
  for (let block = 0; at < into.length; block += 18) {
    const d = halfAt(blocks, block);
    for (let i = block + 2; i < block + 18; i++) {
      const bits = blocks[i] as number;
      for (let bit = 0; bit < 8; bit++) into[at++] = ((bits >> bit) & 1) === 1 ? d : -d;
    }
  }
};

/** The float16 number at a position. */
export function halfAt(bytes: Uint8Array, at: number): number {
  return halfTable()[(bytes[at] as number) | ((bytes[at + 1] as number) << 8)] as number;
}

/** Float16 numbers as float32. */

let table: Float32Array | undefined;

/** Returns the values of all bit patterns; computed on the first call. */
function halfTable(): Float32Array {
  table ??= Float32Array.from({ length: 2 ** 16 }, (_, pattern) => halfValue(pattern));
  return table;
}

function halfValue(pattern: number): number {
  const sign = pattern < 2 ** 15 ? 1 : -1;
  const exponent = (pattern >> 10) & 31;
  const fraction = pattern & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1024 + fraction) * 2 ** (exponent - 25);
}
