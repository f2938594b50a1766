/**
 * Weights whose stored columns are rows of the result: GPTQ, AWQ, and MXFP4 of gpt-oss. Rows of such matrices are often
 * powers of two bytes long, so that a column falls into few places of the processor's cache: these loops use whole cache
 * lines of what they read and write.
 */

/** 32-bit items in a cache line. */
const LINE_LENGTH = 16;

/** Outputs [first, last) of a stored matrix. */
export interface ColumnPart {
  readonly first: number;
  readonly last: number;
  /** Rows of the stored matrix that are read. */
  readonly rows: number;
  /** Columns of the stored matrix. */
  readonly columns: number;
}

/** Copies the columns [first, last) of a matrix, each as a row of `stride` items. */
export function transpose<Items extends Int32Array | Float32Array>(
  items: Items,
  { first, last, rows, columns }: ColumnPart,
  stride: number,
  into: Items,
): void {
  for (let start = first; start < last; start += LINE_LENGTH) {
    const end = Math.min(start + LINE_LENGTH, last);
    for (let row = 0, from = 0; row < rows; row++, from += columns) {
      let to = (start - first) * stride + row;
      for (let column = start; column < end; column++, to += stride) {
        into[to] = items[from + column] as number;
      }
    }
  }
}

/** The nibble of a word of AWQ that has each of its eight columns. */
export const AWQ_NIBBLES: readonly number[] = [0, 4, 1, 5, 2, 6, 3, 7];

/** Codes of AWQ, whose words hold eight outputs of one input: each output as a row of numbers. */
export function unpackAwq(
  words: Int32Array,
  { first, last, rows: inputs, columns }: ColumnPart,
  into: Float32Array,
): void {
  const wordsPerRow = columns / 8;
  const line = new Int32Array(LINE_LENGTH);
  for (let begin = 0; begin < inputs; begin += LINE_LENGTH) {
    const count = Math.min(LINE_LENGTH, inputs - begin);
    for (let output = first; output < last; ) {
      const at = begin * wordsPerRow + (output >>> 3);
      for (let i = 0; i < count; i++) line[i] = words[at + i * wordsPerRow] as number;
      const end = Math.min((output | 7) + 1, last);
      for (; output < end; output++) {
        const shift = 4 * (AWQ_NIBBLES[output & 7] as number);
        const to = (output - first) * inputs + begin;
        for (let i = 0; i < count; i++) into[to + i] = ((line[i] as number) >>> shift) & 15;
      }
    }
  }
}

/** The numbers of E2M1. */
const E2M1: Float32Array = Float32Array.of(
  ...[0, 0.5, 1, 1.5, 2, 3, 4, 6],
  ...[-0, -0.5, -1, -1.5, -2, -3, -4, -6],
);

/** Inputs that share a scale in MXFP4, and the bytes of their codes. */
const GROUP_LENGTH = 32;
const GROUP_BYTES = 16;

/** Outputs of a block: its rows and the bytes of its codes stay in the fastest cache. */
const BLOCK_OUTPUTS = 64;

/** One expert of gpt-oss. */
export interface Expert {
  /** [outputs, groups, 16]: E2M1 codes, the first of each byte in the low bits. */
  readonly bytes: Uint8Array;
  /** [outputs, groups]. */
  readonly scales: Float32Array;
  readonly outputs: number;
  readonly groups: number;
}

/** MXFP4 of gpt-oss with its last two axes exchanged: the inputs [first, last), a row of outputs each. */
export function decodeExchanged(
  { bytes, scales, outputs, groups }: Expert,
  first: number,
  last: number,
  into: Float32Array,
): void {
  const stride = groups * GROUP_BYTES;
  const factors = new Float32Array(BLOCK_OUTPUTS);
  for (let group = Math.floor(first / GROUP_LENGTH); group * GROUP_LENGTH < last; group++) {
    const begin = Math.max(group * GROUP_LENGTH, first);
    const end = Math.min((group + 1) * GROUP_LENGTH, last);
    for (let start = 0; start < outputs; start += BLOCK_OUTPUTS) {
      const count = Math.min(BLOCK_OUTPUTS, outputs - start);
      for (let i = 0; i < count; i++) factors[i] = scales[(start + i) * groups + group] as number;
      for (let input = begin; input < end; ) {
        const to = (input - first) * outputs + start;
        let from = start * stride + group * GROUP_BYTES + ((input % GROUP_LENGTH) >> 1);
        const isPair = (input & 1) === 0 && input + 1 < end;
        if (isPair) {
          for (let i = to, at = 0; at < count; i++, at++, from += stride) {
            const byte = bytes[from] as number;
            const factor = factors[at] as number;
            into[i] = (E2M1[byte & 15] as number) * factor;
            into[i + outputs] = (E2M1[byte >> 4] as number) * factor;
          }
        } else {
          const shift = (input & 1) * 4;
          for (let i = to, at = 0; at < count; i++, at++, from += stride) {
            const code = ((bytes[from] as number) >> shift) & 15;
            into[i] = (E2M1[code] as number) * (factors[at] as number);
          }
        }
        input += isPair ? 2 : 1;
      }
    }
  }
}
