/** The facts that a parsed header keeps per tensor: one row across several typed arrays, 29 bytes in all. */

import type { Work } from '../work/work.js';

/** Mask of the dtype's code in `kind`. */
export const DTYPE_MASK = 0x1f;
/** Bit in `kind`: from its name to its shape the tensor is spelled as this package writes it. */
export const CANONICAL = 0x20;
/** Bit in `kind`: whether shape, dtype and offsets agree must still be checked exactly. */
export const UNPROVEN = 0x40;
/** Bit in `kind`: a later tensor of the header has the same name and replaces this one. */
export const SUPERSEDED = 0x80;

/** `"":{"dtype":"U8","shape":[],"data_offsets":[0,0]},`: no tensor takes fewer bytes of a header. */
const MIN_TENSOR_BYTE_LENGTH = 50;

const WORD_BYTE_LENGTH = 4;
/** Columns of 32-bit words; one more column has a byte per row. */
const WORD_COLUMNS = 7;
const ROW_BYTE_LENGTH = WORD_COLUMNS * WORD_BYTE_LENGTH + 1;

/** The most tensors that fit a header of this many bytes. */
export function mostTensors(headerByteLength: number): number {
  return Math.floor(headerByteLength / MIN_TENSOR_BYTE_LENGTH) + 1;
}

/** Headers up to this length share one piece of memory, one after the other. */
const SHORT_HEADER_BYTE_LENGTH = 256 * 1024;
const SHORT_CAPACITY = mostTensors(SHORT_HEADER_BYTE_LENGTH);

/** The shared memory; null while a header is read into it, or after a header has kept it. */
let spare: TensorColumns | null = null;

/**
 * The rows, called entries. The arrays are filled up to `size`. They never grow: memory that is not touched costs
 * nothing.
 */
export class TensorColumns {
  /** Position in the header after the opening quote of the name. */
  readonly nameAt: Uint32Array;
  /** Hash of the name. */
  readonly nameHash: Uint32Array;
  /** Position in the header of the opening bracket of the shape. */
  readonly shapeAt: Uint32Array;
  /** Code of the dtype and the bits above. */
  readonly kind: Uint8Array;
  /** Upper halves of the first byte's offset: all 64 bits are kept until they have been checked. */
  readonly beginHigh: Uint32Array;
  /** Lower halves of the first byte's offset. */
  readonly beginLow: Uint32Array;
  /** Upper halves of the offset after the last byte. */
  readonly endHigh: Uint32Array;
  /** Lower halves of the offset after the last byte. */
  readonly endLow: Uint32Array;
  /** Entries in use. */
  size = 0;

  /** Allocates room for `capacity` rows in one piece of memory. */
  private constructor(capacity: number) {
    const memory = new ArrayBuffer(capacity * ROW_BYTE_LENGTH);
    const words = (column: number): Uint32Array =>
      new Uint32Array(memory, column * capacity * WORD_BYTE_LENGTH, capacity);
    this.nameAt = words(0);
    this.nameHash = words(1);
    this.shapeAt = words(2);
    this.beginHigh = words(3);
    this.beginLow = words(4);
    this.endHigh = words(5);
    this.endLow = words(6);
    this.kind = new Uint8Array(memory, WORD_COLUMNS * capacity * WORD_BYTE_LENGTH, capacity);
  }

  /** Room for all tensors of a header of that many bytes, to read it and then `keep` it. */
  static forHeader(byteLength: number): TensorColumns {
    if (byteLength > SHORT_HEADER_BYTE_LENGTH) return new TensorColumns(mostTensors(byteLength));
    const columns = spare ?? new TensorColumns(SHORT_CAPACITY);
    spare = null;
    columns.size = 0;
    return columns;
  }

  /** Offset of the first byte, exact up to 2^53. */
  begin(entry: number): number {
    return (this.beginHigh[entry] as number) * 2 ** 32 + (this.beginLow[entry] as number);
  }

  /** Offset after the last byte, exact up to 2^53. */
  end(entry: number): number {
    return (this.endHigh[entry] as number) * 2 ** 32 + (this.endLow[entry] as number);
  }

  /** Brings the entries into the order of (begin, end); equal ones keep their order. */
  *sortByOffsets(): Work<void> {
    if (this.#isSorted()) return;
    const order = yield* this.#orderByOffsets();
    const { size } = this;
    const scratch = new Uint32Array(size);
    for (const column of this.#all()) {
      yield;
      for (let i = 0; i < size; i++) scratch[i] = column[order[i] as number] as number;
      column.set(scratch);
    }
  }

  #isSorted(): boolean {
    const { beginHigh, beginLow, endHigh, endLow, size } = this;
    for (let i = 1; i < size; i++) {
      let difference = (beginHigh[i] as number) - (beginHigh[i - 1] as number);
      if (difference === 0) difference = (beginLow[i] as number) - (beginLow[i - 1] as number);
      if (difference === 0) difference = (endHigh[i] as number) - (endHigh[i - 1] as number);
      if (difference === 0) difference = (endLow[i] as number) - (endLow[i - 1] as number);
      if (difference < 0) return false;
    }
    return true;
  }

  /** Radix sort by 16-bit digits: its time does not depend on the order in the file. */
  *#orderByOffsets(): Work<Uint32Array> {
    const { size } = this;
    let order = new Uint32Array(size);
    let next = new Uint32Array(size);
    for (let i = 0; i < size; i++) order[i] = i;
    const places = new Uint32Array(0x10000);
    for (const column of [this.endLow, this.endHigh, this.beginLow, this.beginHigh]) {
      for (const shift of [0, 16]) {
        yield;
        places.fill(0);
        for (let i = 0; i < size; i++) {
          const digit = ((column[i] as number) >>> shift) & 0xffff;
          places[digit] = (places[digit] as number) + 1;
        }
        const firstDigit = ((column[0] as number) >>> shift) & 0xffff;
        if (places[firstDigit] === size) continue;
        let place = 0;
        for (let digit = 0; digit < 0x10000; digit++) {
          const count = places[digit] as number;
          places[digit] = place;
          place += count;
        }
        for (let i = 0; i < size; i++) {
          const entry = order[i] as number;
          const digit = ((column[entry] as number) >>> shift) & 0xffff;
          next[places[digit] as number] = entry;
          places[digit] = (places[digit] as number) + 1;
        }
        [order, next] = [next, order];
      }
    }
    return order;
  }

  /**
   * Returns the entries to keep: a trimmed copy if more than three quarters of the room are left. Another header may
   * then reuse this object.
   */
  keep(): TensorColumns {
    const { size } = this;
    const capacity = this.nameAt.length;
    if (size * 4 >= capacity) return this;
    const kept = new TensorColumns(size);
    const targets = kept.#all();
    for (const [i, column] of this.#all().entries()) targets[i]?.set(column.subarray(0, size));
    kept.size = size;
    if (capacity === SHORT_CAPACITY) spare = this;
    return kept;
  }

  #all(): (Uint32Array | Uint8Array)[] {
    const { nameAt, nameHash, shapeAt, kind, beginHigh, beginLow, endHigh, endLow } = this;
    return [nameAt, nameHash, shapeAt, kind, beginHigh, beginLow, endHigh, endLow];
  }
}
