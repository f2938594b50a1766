/** Encodes long texts as UTF-8. */

/** UTF-16 units that are encoded at once. */
const PIECE_LENGTH = 2 ** 16;

const encoder = new TextEncoder();

/** Collects text as UTF-8. Encoding one string for a million tensors costs many times as much. */
export class EncodedText {
  readonly #pieces: Uint8Array[] = [];
  readonly #onPiece: ((byteLength: number) => void) | undefined;
  #byteLength = 0;
  #text = '';

  /** `onPiece` gets the length in bytes after each piece, the last one too; it may throw. */
  constructor(onPiece?: (byteLength: number) => void) {
    this.#onPiece = onPiece;
  }

  /** Appends well-formed text. */
  append(text: string): void {
    this.#text += text;
    if (this.#text.length >= PIECE_LENGTH) this.#flush();
  }

  /** Length in bytes. */
  get byteLength(): number {
    this.#flush();
    return this.#byteLength;
  }

  /** Copies all bytes to the start of `target`, which has room for them. */
  copyTo(target: Uint8Array): void {
    this.#flush();
    let end = 0;
    for (const piece of this.#pieces) {
      target.set(piece, end);
      end += piece.length;
    }
  }

  /** All bytes. */
  encoded(): Uint8Array {
    const bytes = new Uint8Array(this.byteLength);
    this.copyTo(bytes);
    return bytes;
  }

  #flush(): void {
    if (this.#text === '') return;
    const piece = encoder.encode(this.#text);
    this.#pieces.push(piece);
    this.#byteLength += piece.length;
    this.#onPiece?.(this.#byteLength);
    this.#text = '';
  }
}
