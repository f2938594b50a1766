/** Bytes in a pickle that a function loads as another file when the pickle is loaded. */

/** Encodings of bytes in a pickle. */
export type PickledEncoding = 'bytes' | 'utf-8' | 'raw-unicode-escape';

/** Bytes of a pickle, or a text that stands for them before protocol 3, with a character per byte. */
export class PickledBytes {
  readonly #pickle: Uint8Array;
  readonly begin: number;
  readonly #end: number;
  readonly #encoding: PickledEncoding;
  /** Whether the value is a text: a call of `_codecs.encode` makes it bytes. */
  readonly isText: boolean;

  /** The bytes [begin, end) of the pickle, not copied. */
  constructor(
    pickle: Uint8Array,
    begin: number,
    end: number,
    encoding: PickledEncoding,
    isText: boolean = encoding !== 'bytes',
  ) {
    this.#pickle = pickle;
    this.begin = begin;
    this.#end = end;
    this.#encoding = encoding;
    this.isText = isText;
  }

  /** Length in the pickle: a byte may take several. */
  get pickledByteLength(): number {
    return this.#end - this.begin;
  }

  /** The bytes that `_codecs.encode` makes of the text in Latin-1. */
  encoded(): PickledBytes {
    return new PickledBytes(this.#pickle, this.begin, this.#end, this.#encoding, false);
  }

  /** The bytes; undefined for a text that is no Latin-1. */
  decode(): Uint8Array | undefined {
    const view = this.#pickle.subarray(this.begin, this.#end);
    if (this.#encoding === 'bytes') return view;
    return this.#encoding === 'utf-8' ? latin1OfUtf8(view) : latin1OfEscapes(view);
  }
}

/** Whether a function loads the bytes that it is called with as another file: `pickle` stores torch's storages so. */
export function loadsInnerFile({ module, name }: { module: string; name: string }): boolean {
  return module === 'torch.storage' && name === '_load_from_bytes';
}

function latin1OfUtf8(view: Uint8Array): Uint8Array | undefined {
  const bytes = new Uint8Array(view.length);
  let length = 0;
  for (let at = 0; at < view.length; at++) {
    const first = view[at] as number;
    if (first < 0x80) {
      bytes[length++] = first;
      continue;
    }
    const second = view[++at] ?? 0;
    if ((first !== 0xc2 && first !== 0xc3) || (second & 0xc0) !== 0x80) return undefined;
    bytes[length++] = ((first & 0x03) << 6) | (second & 0x3f);
  }
  return bytes.subarray(0, length);
}

const BACKSLASH = 0x5c;
const ESCAPE_LENGTH = 6;

/** Picklers escape a few characters as `\\u00xx`, backslashes too. */
function latin1OfEscapes(view: Uint8Array): Uint8Array | undefined {
  const bytes = new Uint8Array(view.length);
  let length = 0;
  for (let at = 0; at < view.length; at++) {
    const byte = view[at] as number;
    if (byte !== BACKSLASH) {
      bytes[length++] = byte;
      continue;
    }
    const escaped = String.fromCharCode(...view.subarray(at, at + ESCAPE_LENGTH));
    const [, digits] = /^\\u00([\da-f]{2})$/i.exec(escaped) ?? [];
    if (digits === undefined) return undefined;
    bytes[length++] = Number.parseInt(digits, 16);
    at += ESCAPE_LENGTH - 1;
  }
  return bytes.subarray(0, length);
}
