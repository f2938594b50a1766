/**
 * Weights whose stored columns are rows of the result: GPTQ, AWQ, and MXFP4 of gpt-oss. Rows of such matrices are often
 * powers of two bytes long, so that a column falls into few places of the processor's cache: these loops use whole cache
 * lines of what they read and write.
 */

/** 32-bit items in a cache line. */
const LINE_LENGTH = 16;

/** Outputs [first, last) of a stored matrix. */
interface ColumnPart {
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
const E2M1: readonly number[] = [
  ...[0, 0.5, 1, 1.5, 2, 3, 4, 6],
  ...[-0, -0.5, -1, -1.5, -2, -3, -4, -6],
];

/** Bit patterns of every number of MXFP4: of 16 codes for each exponent. Made on first use. */
let mxfp4: Int32Array | undefined;

function mxfp4Patterns(): Int32Array {
  const numbers = new Float32Array(256 * E2M1.length);
  for (let i = 0; i < numbers.length; i++)
    numbers[i] = (E2M1[i & 15] as number) * 2 ** ((i >> 4) - 127);
  return new Int32Array(numbers.buffer);
}

/** Inputs that share a scale in MXFP4, and the words of their codes. */
const GROUP_LENGTH = 32;
const GROUP_WORDS = 4;

/** Outputs of a block: its rows and the bytes of its codes stay in the fastest cache. */
const BLOCK_OUTPUTS = 64;

/** One expert of gpt-oss. */
export interface Expert {
  /** [outputs, groups, 4]: words of eight E2M1 codes, the first in the lowest bits. */
  readonly words: Int32Array;
  /** [outputs, groups]: exponents, 127 for a factor of 1. */
  readonly exponents: Uint8Array;
  readonly outputs: number;
  readonly groups: number;
}

/**
 * MXFP4 of gpt-oss with its last two axes exchanged: the inputs [first, last), a row of outputs each. Copies bit
 * patterns, which needs no arithmetic.
 */
export function decodeExchanged(
  { words, exponents, outputs, groups }: Expert,
  first: number,
  last: number,
  into: Float32Array,
): void {
  mxfp4 ??= mxfp4Patterns();
  const table = mxfp4;
  const patterns = new Int32Array(into.buffer, into.byteOffset, into.length);
  const stride = groups * GROUP_WORDS;
  const bases = new Int32Array(BLOCK_OUTPUTS);
  for (let group = Math.floor(first / GROUP_LENGTH); group * GROUP_LENGTH < last; group++) {
    const begin = Math.max(group * GROUP_LENGTH, first);
    const end = Math.min((group + 1) * GROUP_LENGTH, last);
    for (let start = 0; start < outputs; start += BLOCK_OUTPUTS) {
      const count = Math.min(BLOCK_OUTPUTS, outputs - start);
      for (let i = 0; i < count; i++)
        bases[i] = (exponents[(start + i) * groups + group] as number) << 4;
      for (let input = begin; input < end; ) {
        let to = (input - first) * outputs + start;
        let from = start * stride + group * GROUP_WORDS + ((input % GROUP_LENGTH) >> 3);
        const isWhole = (input & 7) === 0 && input + 8 <= end;
        if (isWhole) {
          for (let at = 0; at < count; at++, from += stride, to++) {
            const word = words[from] as number;
            const base = bases[at] as number;
            patterns[to] = table[base | (word & 15)] as number;
            patterns[to + outputs] = table[base | ((word >>> 4) & 15)] as number;
            patterns[to + 2 * outputs] = table[base | ((word >>> 8) & 15)] as number;
            patterns[to + 3 * outputs] = table[base | ((word >>> 12) & 15)] as number;
            patterns[to + 4 * outputs] = table[base | ((word >>> 16) & 15)] as number;
            patterns[to + 5 * outputs] = table[base | ((word >>> 20) & 15)] as number;
            patterns[to + 6 * outputs] = table[base | ((word >>> 24) & 15)] as number;
            patterns[to + 7 * outputs] = table[base | (word >>> 28)] as number;
          }
        } else {
          const shift = (input & 7) * 4;
          for (let at = 0; at < count; at++, from += stride, to++) {
            const code = ((words[from] as number) >>> shift) & 15;
            patterns[to] = table[(bases[at] as number) | code] as number;
          }
        }
        input += isWhole ? 8 : 1;
      }
    }
  }
}
