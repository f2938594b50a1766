/** Weights whose stored columns are rows of the result: GPTQ, AWQ, and MXFP4 of gpt-oss. */

/** Columns of the stored matrix, which are rows of the result. */
export interface ColumnPart {
  readonly first: number;
  readonly last: number;
  /** Columns of all stored matrices, which may have fewer words. */
  readonly outputs: number;
  /** Rows of the stored matrix: columns of the result. */
  readonly inputs: number;
}

/** Scales and zero points, one for each group and output. */
export interface ColumnScales {
  readonly scales: Float32Array;
  readonly zeros: Float32Array;
  /** The group of every input. */
  readonly groups: Int32Array;
}

/** GPTQ: `bits` of every code lie one after the other down a column. */
export function decodeGptq(
  words: Int32Array,
  bits: number,
  { first, last, outputs, inputs }: ColumnPart,
  { scales, zeros, groups }: ColumnScales,
  into: Float32Array,
): void {
  const mask = (1 << bits) - 1;
  for (let input = 0; input < inputs; input++) {
    const bit = input * bits;
    const row = (bit >>> 5) * outputs;
    const shift = bit & 31;
    const group = (groups[input] as number) * outputs;
    const isSplit = shift + bits > 32;
    let to = input;
    for (let output = first; output < last; output++, to += inputs) {
      let code = (words[row + output] as number) >>> shift;
      if (isSplit) code |= (words[row + outputs + output] as number) << (32 - shift);
      into[to] =
        ((code & mask) - (zeros[group + output] as number)) * (scales[group + output] as number);
    }
  }
}

/** The nibble of a word that has each of its eight columns. */
export const AWQ_NIBBLES: readonly number[] = [0, 4, 1, 5, 2, 6, 3, 7];

/** AWQ: a word has eight outputs of one input. */
export function decodeAwq(
  words: Int32Array,
  { first, last, outputs, inputs }: ColumnPart,
  { scales, zeros, groups }: ColumnScales,
  into: Float32Array,
): void {
  const wordsPerRow = outputs / 8;
  for (let output = first; output < last; output++) {
    const shift = 4 * (AWQ_NIBBLES[output % 8] as number);
    const at = output >>> 3;
    const to = (output - first) * inputs;
    for (let input = 0; input < inputs; input++) {
      const code = ((words[input * wordsPerRow + at] as number) >>> shift) & 15;
      const scale = (groups[input] as number) * outputs + output;
      into[to + input] = (code - (zeros[scale] as number)) * (scales[scale] as number);
    }
  }
}

/** The numbers of E2M1. */
export const E2M1: Float32Array = Float32Array.of(
  ...[0, 0.5, 1, 1.5, 2, 3, 4, 6],
  ...[-0, -0.5, -1, -1.5, -2, -3, -4, -6],
);

/**
 * MXFP4 of gpt-oss: `bytes` are the [outputs, groups, 16] blocks of one expert, `scales` the numbers of its
 * [outputs, groups]. Writes the inputs [first, last), a row of outputs each.
 */
export function decodeExchanged(
  bytes: Uint8Array,
  scales: Float32Array,
  {
    first,
    last,
    outputs,
    groups,
  }: {
    readonly first: number;
    readonly last: number;
    readonly outputs: number;
    readonly groups: number;
  },
  into: Float32Array,
): void {
  for (let input = first; input < last; input++) {
    const group = input >>> 5;
    const offset = group * 16 + ((input & 31) >> 1);
    const shift = (input & 1) * 4;
    const to = (input - first) * outputs;
    for (let output = 0; output < outputs; output++) {
      const byte = bytes[output * groups * 16 + offset] as number;
      into[to + output] =
        (E2M1[(byte >> shift) & 15] as number) * (scales[output * groups + group] as number);
    }
  }
}
