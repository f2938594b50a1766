/** ASCII text of at least four bytes, cut into words of four; the last overlaps the one before. */
export class Literal {
  /** Bytes of the text. */
  readonly byteLength: number;
  /** Place of each word in the text. */
  readonly places: number[] = [];
  /** The words, little endian. */
  readonly words: number[] = [];

  /** Prepares a text for `skipLiteral`. */
  constructor(text: string) {
    this.byteLength = text.length;
    for (let at = 0; at < text.length; at += 4) {
      const place = Math.min(at, text.length - 4);
      let word = 0;
      for (let i = 3; i >= 0; i--) word = (word << 8) | text.charCodeAt(place + i);
      this.places.push(place);
      this.words.push(word);
    }
  }
}
