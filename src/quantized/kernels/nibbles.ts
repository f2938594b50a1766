/** Codes of 4 bits in words of 32, with their arithmetic: by a table of the sixteen numbers of each group. */

/** Rows of words and the groups of their codes. */
interface NibbleRows {
  readonly wordsPerRow: number;
  /** Codes in a row, and that share a scale: multiples of 8, what a word holds. */
  readonly columns: number;
  readonly groupLength: number;
}

/** Writes the numbers of a group's sixteen codes. */
type Table = (group: number, numbers: Float32Array) => void;

/** `(code - zero) * scale`: as `subtractAndMultiply`. */
export function shiftedTable(scales: Float32Array, zeros: Float32Array): Table {
  return (group, numbers) => {
    const [scale, zero] = [scales[group] as number, zeros[group] as number];
    for (let code = 0; code < 16; code++) numbers[code] = (code - zero) * scale;
  };
}

/** `code * scale + bias`: as `multiplyAndAdd`. */
export function affineTable(scales: Float32Array, biases: Float32Array): Table {
  return (group, numbers) => {
    const [scale, bias] = [scales[group] as number, biases[group] as number];
    for (let code = 0; code < 16; code++) numbers[code] = Math.fround(code * scale) + bias;
  };
}

/** Decodes whole rows. Copies bit patterns of the table, which needs no arithmetic for each value. */
export function decodeNibbles(
  words: Int32Array,
  { wordsPerRow, columns, groupLength }: NibbleRows,
  fill: Table,
  into: Float32Array,
): void {
  const numbers = new Float32Array(16);
  const table = new Int32Array(numbers.buffer);
  const patterns = new Int32Array(into.buffer, into.byteOffset, into.length);
  const wordsPerGroup = groupLength / 8;
  const groups = columns / groupLength;
  let [next, group] = [0, 0];
  for (let row = 0; next < patterns.length; row += wordsPerRow) {
    for (let first = row; first < row + groups * wordsPerGroup; first += wordsPerGroup) {
      fill(group++, numbers);
      for (let i = first; i < first + wordsPerGroup; i++) {
        const word = words[i] as number;
        patterns[next] = table[word & 15] as number;
        patterns[next + 1] = table[(word >>> 4) & 15] as number;
        patterns[next + 2] = table[(word >>> 8) & 15] as number;
        patterns[next + 3] = table[(word >>> 12) & 15] as number;
        patterns[next + 4] = table[(word >>> 16) & 15] as number;
        patterns[next + 5] = table[(word >>> 20) & 15] as number;
        patterns[next + 6] = table[(word >>> 24) & 15] as number;
        patterns[next + 7] = table[word >>> 28] as number;
        next += 8;
      }
    }
  }
}

/** Whether rows of such codes can be decoded so: whole words in every group. */
export function areNibbles(bits: number, columns: number, groupLength: number): boolean {
  return bits === 4 && groupLength % 8 === 0 && columns % groupLength === 0;
}

/** Looks up the number of each nibble of a byte, the first in the low four bits. */
export function lookUpNibbles<Numbers extends Int8Array | Float32Array>(
  bytes: Uint8Array,
  numbers: Numbers,
  into: Numbers,
): void {
  for (let i = 0, next = 0; i < bytes.length; i++, next += 2) {
    const byte = bytes[i] as number;
    into[next] = numbers[byte & 15] as number;
    into[next + 1] = numbers[byte >>> 4] as number;
  }
}

/** Adding and subtracting it rounds a double to an integer, halves to even ones. */
const ROUNDING = 1.5 * 2 ** 52;

/**
 * Rounds the product of the number of each nibble and the scale of its group to an integer from -127 to 127. Numbers
 * and scales are finite, and groups have even lengths.
 */
export function roundNibbles(
  bytes: Uint8Array,
  numbers: Float32Array,
  groupLength: number,
  scales: Float32Array,
  into: Int8Array,
): void {
  const levels = new Int8Array(16);
  const bytesPerGroup = groupLength / 2;
  for (let begin = 0, group = 0, next = 0; begin < bytes.length; begin += bytesPerGroup, group++) {
    const scale = scales[group] as number;
    for (let code = 0; code < 16; code++) {
      const product = Math.fround((numbers[code] as number) * scale);
      levels[code] = Math.min(Math.max(product + ROUNDING - ROUNDING, -127), 127);
    }
    for (let i = begin; i < begin + bytesPerGroup; i++, next += 2) {
      const byte = bytes[i] as number;
      into[next] = levels[byte & 15] as number;
      into[next + 1] = levels[byte >>> 4] as number;
    }
  }
}
