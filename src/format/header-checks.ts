/**
 * Steps 7 and 8 of reading a header: the tensors lie end to end from offset 0, each takes what its
 * shape and dtype need, and the file ends with the last one. All arithmetic is exact up to 2^64.
 */

import { type ErrorContext, FormatError, type FormatErrorCode } from '../errors/errors.js';
import { CLOSE_BRACKET, type JsonReader } from '../json/reader.js';
import { decodeString } from '../json/strings.js';
import { DTYPE_NAMES, DTYPES } from './dtype.js';
import { DTYPE_MASK, SUPERSEDED, type TensorColumns, UNPROVEN } from './tensor-columns.js';

const MAX_UINT64 = 2n ** 64n - 1n;
/** A number of 64 bits whose upper half is below this is at most 2^53 - 1. */
const UNSAFE_HIGH = 2 ** 21;

/** Checks the tensors of one header. */
export class HeaderChecks {
  readonly #json: Uint8Array;
  readonly #reader: JsonReader;
  readonly #columns: TensorColumns;
  readonly #context: ErrorContext;
  #oversizedEntry = -1;

  /** `columns` are sorted by offsets; the reader is that of the header. */
  constructor(reader: JsonReader, columns: TensorColumns, context: ErrorContext) {
    this.#json = reader.bytes;
    this.#reader = reader;
    this.#columns = columns;
    this.#context = context;
  }

  /** Throws what the first tensor in file order, or the length of the data, violates. */
  checkTensors(dataByteLength: number): void {
    const columns = this.#columns;
    const { beginHigh, beginLow, endHigh, endLow, kind } = columns;
    let runningHigh = 0;
    let runningLow = 0;
    for (let entry = 0; entry < columns.size; entry++) {
      const flags = kind[entry] as number;
      if ((flags & SUPERSEDED) !== 0) continue;
      if (beginHigh[entry] !== runningHigh || beginLow[entry] !== runningLow) {
        this.#failBegin(entry, join(runningHigh, runningLow));
      }
      if ((flags & UNPROVEN) !== 0) this.#checkExactly(entry);
      runningHigh = endHigh[entry] as number;
      runningLow = endLow[entry] as number;
    }
    // A file has fewer bytes than 2^53, which rounding does not make of a larger number.
    if (runningHigh * 2 ** 32 + runningLow !== dataByteLength) {
      this.#failLength(join(runningHigh, runningLow), dataByteLength);
    }
  }

  #failBegin(entry: number, expected: bigint): never {
    this.#fail(
      entry,
      'SAFETENSORS_INVALID_OFFSET',
      `expected to begin where the tensor before it ends, at ${expected}, ` +
        `but data_offsets is ${this.#offsets(entry)}`,
    );
  }

  #failLength(expected: bigint, dataByteLength: number): never {
    throw new FormatError(
      'SAFETENSORS_METADATA_INCOMPLETE_BUFFER',
      `expected ${expected} bytes of tensor data after the header, found ${dataByteLength}` +
        (expected > dataByteLength ? ': the file is incomplete' : ''),
      this.#context,
    );
  }

  /** Throws for a dimension above 2^53 - 1, which a JavaScript number cannot hold. */
  checkDimensions(): void {
    if (this.#oversizedEntry === -1) return;
    this.#fail(
      this.#oversizedEntry,
      'SAFETENSORS_VALIDATION_OVERFLOW',
      `expected dimensions up to ${Number.MAX_SAFE_INTEGER}, found a larger one`,
    );
  }

  #checkExactly(entry: number): void {
    const columns = this.#columns;
    const begin = join(columns.beginHigh[entry] as number, columns.beginLow[entry] as number);
    const end = join(columns.endHigh[entry] as number, columns.endLow[entry] as number);
    if (end < begin) {
      this.#fail(
        entry,
        'SAFETENSORS_INVALID_OFFSET',
        `expected to end at or after its begin, but data_offsets is ${this.#offsets(entry)}`,
      );
    }
    const dtype = DTYPE_NAMES[(columns.kind[entry] as number) & DTYPE_MASK] as keyof typeof DTYPES;
    const elements = this.#elementCount(entry);
    const bits = elements * BigInt(DTYPES[dtype].bits);
    if (bits > MAX_UINT64) this.#failOverflow(entry, `${elements} elements of ${dtype}`);
    if (bits % 8n !== 0n) {
      this.#fail(
        entry,
        'SAFETENSORS_MISALIGNED_SLICE',
        `expected whole bytes, but ${elements} elements of ${dtype} take ${bits} bits`,
      );
    }
    if (end - begin !== bits / 8n) {
      this.#fail(
        entry,
        'SAFETENSORS_TENSOR_INVALID_INFO',
        `expected ${bits / 8n} bytes for ${elements} elements of ${dtype}, ` +
          `but data_offsets is ${this.#offsets(entry)}, ${end - begin} bytes`,
      );
    }
  }

  /**
   * Product of the dimensions, multiplied from the left as the reference does. Ones and whatever
   * follows a zero are skipped, so that at most 64 multiplications happen before an overflow.
   */
  #elementCount(entry: number): bigint {
    const reader = this.#reader;
    reader.at = this.#columns.shapeAt[entry] as number;
    let count = 1n;
    if (!reader.enter(CLOSE_BRACKET)) return count;
    do {
      const dimension = reader.readUnsigned();
      const high = reader.halves[1] as number;
      if (high >= UNSAFE_HIGH && this.#oversizedEntry === -1) this.#oversizedEntry = entry;
      if (dimension === 1 || count === 0n) continue;
      count *= join(high, reader.halves[0] as number);
      if (count > MAX_UINT64) this.#failOverflow(entry, 'the product of its dimensions');
    } while (reader.hasNext(CLOSE_BRACKET));
    return count;
  }

  #offsets(entry: number): string {
    const { beginHigh, beginLow, endHigh, endLow } = this.#columns;
    const begin = join(beginHigh[entry] as number, beginLow[entry] as number);
    return `[${begin}, ${join(endHigh[entry] as number, endLow[entry] as number)}]`;
  }

  #failOverflow(entry: number, what: string): never {
    const message = `expected a size below 2^64 bits, but ${what} is larger`;
    this.#fail(entry, 'SAFETENSORS_VALIDATION_OVERFLOW', message);
  }

  #fail(entry: number, code: FormatErrorCode, message: string): never {
    const tensor = decodeString(this.#json, this.#columns.nameAt[entry] as number);
    throw new FormatError(code, message, { ...this.#context, tensor });
  }
}

function join(high: number, low: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low);
}
