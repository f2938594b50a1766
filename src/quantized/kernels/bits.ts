/** Codes of rows that are streams of bits in little-endian words of 32. */

/** How codes lie in the words of a row. */
interface BitRows {
  readonly bits: number;
  /** Codes in each word, whose upper bits are unused; null for a dense stream. */
  readonly perWord: number | null;
  readonly wordsPerRow: number;
  readonly columns: number;
}

/** Unpacks whole rows: each code as a number. `words` and `into` have the same rows. */
export function unpackBits(words: Int32Array, rows: BitRows, into: Float32Array): void {
  const { bits, perWord, wordsPerRow, columns } = rows;
  const count = columns === 0 ? 0 : into.length / columns;
  if (perWord !== null || 32 % bits === 0) {
    unpackWords(words, { ...rows, perWord: perWord ?? 32 / bits }, count, into);
    return;
  }
  const mask = (1 << bits) - 1;
  let next = 0;
  for (let row = 0; row < count; row++) {
    let at = row * wordsPerRow;
    let word = words[at] as number;
    let shift = 0;
    for (let column = 0; column < columns; column++) {
      let code = word >>> shift;
      shift += bits;
      if (shift >= 32) {
        // The code may go on in the next word; the last one of a row ends in its word.
        word = words[++at] as number;
        shift -= 32;
        if (shift > 0) code |= word << (bits - shift);
      }
      into[next++] = code & mask;
    }
  }
}

function unpackWords(
  words: Int32Array,
  { bits, perWord, wordsPerRow, columns }: BitRows & { readonly perWord: number },
  count: number,
  into: Float32Array,
): void {
  const mask = (1 << bits) - 1;
  const wholeWords = Math.floor(columns / perWord);
  const rest = columns - wholeWords * perWord;
  let next = 0;
  for (let row = 0; row < count; row++) {
    const first = row * wordsPerRow;
    if (bits === 4) {
      for (let i = first; i < first + wholeWords; i++) {
        const word = words[i] as number;
        into[next] = word & 15;
        into[next + 1] = (word >>> 4) & 15;
        into[next + 2] = (word >>> 8) & 15;
        into[next + 3] = (word >>> 12) & 15;
        into[next + 4] = (word >>> 16) & 15;
        into[next + 5] = (word >>> 20) & 15;
        into[next + 6] = (word >>> 24) & 15;
        into[next + 7] = word >>> 28;
        next += 8;
      }
    } else {
      for (let i = first; i < first + wholeWords; i++) {
        const word = words[i] as number;
        for (let j = 0; j < perWord; j++) into[next++] = (word >>> (j * bits)) & mask;
      }
    }
    const last = rest === 0 ? 0 : (words[first + wholeWords] as number);
    for (let j = 0; j < rest; j++) into[next++] = (last >>> (j * bits)) & mask;
  }
}

/** Returns the code at a position of a stream, which begins at `words[first]` and goes on every `stride` words. */
export function codeAt(
  words: Int32Array,
  {
    first,
    stride,
    bits,
    perWord,
  }: {
    readonly first: number;
    readonly stride: number;
    readonly bits: number;
    readonly perWord: number | null;
  },
  index: number,
): number {
  const bit = perWord === null ? index * bits : (index % perWord) * bits;
  const word = perWord === null ? Math.floor(bit / 32) : Math.floor(index / perWord);
  const shift = perWord === null ? bit % 32 : bit;
  const at = first + word * stride;
  let code = (words[at] as number) >>> shift;
  if (shift + bits > 32) code |= (words[at + stride] as number) << (32 - shift);
  return code & ((1 << bits) - 1);
}
