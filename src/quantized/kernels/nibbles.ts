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
export function lookUpNibbles(bytes: Uint8Array, numbers: Float32Array, into: Float32Array): void {
  for (let i = 0, next = 0; i < bytes.length; i++, next += 2) {
    const byte = bytes[i] as number;
    into[next] = numbers[byte & 15] as number;
    into[next + 1] = numbers[byte >>> 4] as number;
  }
}

/** The numbers of both nibbles of each byte, as 16 bits. */
function pairsOf(numbers: Int8Array, into: Int16Array): void {
  for (let byte = 0; byte < 256; byte++) {
    into[byte] = ((numbers[byte & 15] as number) & 255) | ((numbers[byte >>> 4] as number) << 8);
  }
}

/** As above, for numbers of 8 bits, those of a byte at once. `into` begins at a multiple of two bytes. */
export function lookUpNibblePairs(bytes: Uint8Array, numbers: Int8Array, into: Int8Array): void {
  const pairs = new Int16Array(256);
  pairsOf(numbers, pairs);
  const found = new Int16Array(into.buffer, into.byteOffset, bytes.length);
  lookUpPairs(bytes, 0, bytes.length, pairs, 0, found);
}

/** Looks up the bytes [begin, end) in a table from `first` on, four a step: engines don't unroll loops. */
function lookUpPairs(
  bytes: Uint8Array,
  begin: number,
  end: number,
  pairs: Int16Array,
  first: number,
  into: Int16Array,
): void {
  let i = begin;
  for (; i + 4 <= end; i += 4) {
    into[i] = pairs[first + (bytes[i] as number)] as number;
    into[i + 1] = pairs[first + (bytes[i + 1] as number)] as number;
    into[i + 2] = pairs[first + (bytes[i + 2] as number)] as number;
    into[i + 3] = pairs[first + (bytes[i + 3] as number)] as number;
  }
  for (; i < end; i++) into[i] = pairs[first + (bytes[i] as number)] as number;
}

/** Exchanges the nibbles of every byte, in place: the first value of a byte may be in its high four bits. */
export function exchangeNibbles(words: Int32Array): void {
  for (let i = 0; i < words.length; i++) {
    const word = words[i] as number;
    words[i] = ((word & 0x0f0f0f0f) << 4) | ((word >>> 4) & 0x0f0f0f0f);
  }
}

/** Adding and subtracting it rounds a double to an integer, halves to even ones. */
const ROUNDING = 1.5 * 2 ** 52;

/** Bits of a float32 after its sign, its exponent and the three bits of the fraction that E4M3 has. */
const REST_BITS = 20;

/** Scales of E4M3, and more than them. */
const MAX_TABLES = 256;

/**
 * Products of sixteen numbers and scales, rounded to integers from -127 to 127. Scales of E4M3 are few, so that their
 * products are retained. Numbers and scales are finite.
 */
export class RoundedProducts {
  readonly #numbers: Float32Array;
  /** The table of each scale of 12 bits; -1 without one. */
  readonly #tableOf = new Int16Array(2 ** (32 - REST_BITS)).fill(-1);
  /** Tables of the products of both nibbles of each byte. */
  readonly #pairs = new Int16Array(256 * MAX_TABLES);
  #tables = 0;
  /** The products of one scale. */
  readonly #products = new Int8Array(16);

  constructor(numbers: Float32Array) {
    this.#numbers = numbers;
  }

  /**
   * Looks up the product of each nibble and the scale of its group. Groups have even lengths, and `into` begins at a
   * multiple of two bytes.
   */
  lookUp(bytes: Uint8Array, groupLength: number, scales: Float32Array, into: Int8Array): void {
    const bits = new Uint32Array(scales.buffer, scales.byteOffset, scales.length);
    const pairs = new Int16Array(into.buffer, into.byteOffset, bytes.length);
    const bytesPerGroup = groupLength / 2;
    for (let begin = 0, group = 0; begin < bytes.length; begin += bytesPerGroup, group++) {
      const end = begin + bytesPerGroup;
      const table = this.#find(scales[group] as number, bits[group] as number);
      if (table !== -1) lookUpPairs(bytes, begin, end, this.#pairs, 256 * table, pairs);
      else this.#lookUpProducts(bytes, begin, end, into);
    }
  }

  #lookUpProducts(bytes: Uint8Array, begin: number, end: number, into: Int8Array): void {
    const products = this.#products;
    for (let i = begin; i < end; i++) {
      const byte = bytes[i] as number;
      into[2 * i] = products[byte & 15] as number;
      into[2 * i + 1] = products[byte >>> 4] as number;
    }
  }

  /** The table of a scale; -1 for one without, whose products are computed. */
  #find(scale: number, bits: number): number {
    const isShort = bits << (32 - REST_BITS) === 0;
    const known = isShort ? (this.#tableOf[bits >>> REST_BITS] as number) : -1;
    if (known !== -1) return known;
    for (let code = 0; code < 16; code++) {
      const product = Math.fround((this.#numbers[code] as number) * scale);
      const rounded = product + ROUNDING - ROUNDING;
      this.#products[code] = Math.min(Math.max(rounded, -127), 127);
    }
    if (!isShort || this.#tables === MAX_TABLES) return -1;
    const table = this.#tables++;
    pairsOf(this.#products, this.#pairs.subarray(256 * table, 256 * (table + 1)));
    this.#tableOf[bits >>> REST_BITS] = table;
    return table;
  }
}
