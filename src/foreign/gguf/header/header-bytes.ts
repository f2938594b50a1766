/**
 * The first bytes of a GGUF file, read as far as its header needs: each number is checked against the end of the file.
 */

import { type ErrorContext, FormatError } from '../../../errors/errors.js';
import type { Work } from '../../../work/work.js';

/** Positioned reads of a file. */
export interface HeaderFile {
  readonly byteLength: number;
  /** Reads the bytes [begin, end), which are within the file. */
  read(begin: number, end: number): Work<Uint8Array>;
}

/** Bytes of the first read: enough for the header of a model without a vocabulary. */
const FIRST_BYTE_LENGTH = 64 * 1024;

/** Minimum of bytes of each further read, which takes a request of a remote file. */
const STEP_BYTE_LENGTH = 2 * 2 ** 20;

/** Counts above this are wrong, not those of a file that ends early. */
const PLAUSIBLE_COUNT = 2 ** 30;

/** Longest text in a message. */
const MAX_NAME_BYTE_LENGTH = 65_535;

/** A position in the header, with the bytes before and some after it. */
export class HeaderBytes {
  /** Position of the next byte. */
  at = 0;
  /** Whether numbers have the high byte first. */
  isBigEndian = false;
  /** Bytes of a length or a count: 4 in version 1. */
  lengthWidth: 4 | 8 = 8;
  readonly context: ErrorContext;
  readonly #file: HeaderFile;
  readonly #maxByteLength: number;
  #bytes = new Uint8Array(0);
  #view = new DataView(new ArrayBuffer(0));

  constructor(file: HeaderFile, maxByteLength: number, context: ErrorContext) {
    this.#file = file;
    this.#maxByteLength = maxByteLength;
    this.context = context;
  }

  /** All bytes read so far. */
  get bytes(): Uint8Array {
    return this.#bytes;
  }

  get view(): DataView {
    return this.#view;
  }

  /** Bytes of the file from here on. */
  get rest(): number {
    return this.#file.byteLength - this.at;
  }

  /** Whether the next bytes were read; otherwise call `fetch`. */
  has(count: number): boolean {
    return this.at + count <= this.#bytes.length;
  }

  /**
   * Reads at least the next bytes.
   *
   * @throws FormatError `SAFETENSORS_INCOMPLETE_FILE` when the file ends before them; `SAFETENSORS_HEADER_TOO_LARGE`
   */
  *fetch(count: number): Work<void> {
    if (this.has(count)) return;
    const end = this.at + count;
    this.requireRest(count, 'the header');
    if (end > this.#maxByteLength) {
      const message = `the header is larger than ${this.#maxByteLength} bytes: raise maxHeaderByteLength for a file that you trust`;
      throw new FormatError('SAFETENSORS_HEADER_TOO_LARGE', message, this.context);
    }
    const present = this.#bytes.length;
    const step = Math.max(present, STEP_BYTE_LENGTH);
    const wanted = present === 0 ? Math.max(end, FIRST_BYTE_LENGTH) : Math.max(end, present + step);
    const length = Math.min(wanted, this.#file.byteLength, this.#maxByteLength);
    const longer = new Uint8Array(length);
    longer.set(this.#bytes);
    longer.set(yield* this.#file.read(present, length), present);
    this.#bytes = longer;
    this.#view = new DataView(longer.buffer);
  }

  /** Throws unless the file has `count` more bytes, which `what` needs. */
  requireRest(count: number, what: string): void {
    const { rest } = this;
    if (count <= rest) return;
    const isCount = count > PLAUSIBLE_COUNT;
    const code = isCount ? 'SAFETENSORS_INVALID_GGUF' : 'SAFETENSORS_INCOMPLETE_FILE';
    const found = `${what} needs ${count} bytes at position ${this.at}, but the file has ${rest} more`;
    throw new FormatError(code, `incomplete or damaged GGUF file: ${found}`, this.context);
  }

  /** The error for a malformed header. */
  invalid(message: string, tensor?: string): FormatError {
    return new FormatError('SAFETENSORS_INVALID_GGUF', message, { ...this.context, tensor });
  }

  /** Takes a number of four bytes, which are at hand. */
  takeUint32(): number {
    const value = this.#view.getUint32(this.at, !this.isBigEndian);
    this.at += 4;
    return value;
  }

  /** Takes a number of eight bytes; rounded from 2^53 on. */
  takeUint64(): number {
    const value = uint64At(this.#view, this.at, this.isBigEndian);
    this.at += 8;
    return value;
  }

  /** Takes a length or a count. */
  takeLength(): number {
    return this.lengthWidth === 8 ? this.takeUint64() : this.takeUint32();
  }

  /** Takes a name, which must be UTF-8. */
  *takeName(what: string): Work<string> {
    if (!this.has(this.lengthWidth)) yield* this.fetch(this.lengthWidth);
    const length = this.takeLength();
    this.requireRest(length, what);
    if (length > MAX_NAME_BYTE_LENGTH) {
      throw this.invalid(`${what} has ${length} bytes, more than ${MAX_NAME_BYTE_LENGTH}`);
    }
    if (!this.has(length)) yield* this.fetch(length);
    const text = decodedUtf8(this.#bytes.subarray(this.at, this.at + length));
    if (text === null) throw this.invalid(`${what} at position ${this.at} is not UTF-8`);
    this.at += length;
    return text;
  }
}

/** A number of eight bytes; rounded from 2^53 on. */
export function uint64At(view: DataView, at: number, isBigEndian: boolean): number {
  const first = view.getUint32(at, !isBigEndian);
  const second = view.getUint32(at + 4, !isBigEndian);
  return isBigEndian ? first * 2 ** 32 + second : second * 2 ** 32 + first;
}

const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Decodes UTF-8; null for other bytes. */
export function decodedUtf8(bytes: Uint8Array): string | null {
  try {
    return UTF8.decode(bytes);
  } catch {
    return null;
  }
}
