/** What a parsed header keeps per tensor: one row across several typed arrays, 29 bytes in all. */

import type { Slices } from '../json/slices.js';

/** Mask of the dtype's code in `kind`. */
export const DTYPE_MASK = 0x1f;
/** Bit in `kind`: from its name to its shape the tensor is spelled as this package writes it. */
export const USUAL = 0x20;
/** Bit in `kind`: whether shape, dtype and offsets agree must still be checked exactly. */
export const UNPROVEN = 0x40;
/** Bit in `kind`: a later tensor of the header has the same name and replaces this one. */
export const SUPERSEDED = 0x80;

/** `"":{"dtype":"U8","shape":[],"data_offsets":[0,0]},`: no tensor takes fewer bytes of a header. */
const MIN_TENSOR_BYTE_LENGTH = 50;

/** Most tensors that a header of that many bytes can have. */
export function mostTensors(headerByteLength: number): number {
  return Math.floor(headerByteLength / MIN_TENSOR_BYTE_LENGTH) + 1;
}

/**
 * The rows, called entries. The arrays are filled up to `size`. They never grow: memory that is not touched costs nothing.
 */
export class TensorColumns {
  /** Position in the header behind the opening quote of the name. */
  nameAt: Uint32Array;
  /** Hash of the name. */
  nameHash: Uint32Array;
  /** Position in the header of the opening bracket of the shape. */
  shapeAt: Uint32Array;
  /** Code of the dtype and the bits above. */
  kind: Uint8Array;
  /** Upper halves of the first byte's offset: all 64 bits are kept until they have been checked. */
  beginHigh: Uint32Array;
  /** Lower halves of the first byte's offset. */
  beginLow: Uint32Array;
  /** Upper halves of the offset behind the last byte. */
  endHigh: Uint32Array;
  /** Lower halves of the offset behind the last byte. */
  endLow: Uint32Array;
  /** Entries in use. */
  size = 0;

  /** Room for all tensors of a header of that many bytes. */
  constructor(headerByteLength: number) {
    const capacity = mostTensors(headerByteLength);
    this.nameAt = new Uint32Array(capacity);
    this.nameHash = new Uint32Array(capacity);
    this.shapeAt = new Uint32Array(capacity);
    this.kind = new Uint8Array(capacity);
    this.beginHigh = new Uint32Array(capacity);
    this.beginLow = new Uint32Array(capacity);
    this.endHigh = new Uint32Array(capacity);
    this.endLow = new Uint32Array(capacity);
  }

  /** Offset of the first byte, exact up to 2^53. */
  begin(entry: number): number {
    return (this.beginHigh[entry] as number) * 2 ** 32 + (this.beginLow[entry] as number);
  }

  /** Offset behind the last byte, exact up to 2^53. */
  end(entry: number): number {
    return (this.endHigh[entry] as number) * 2 ** 32 + (this.endLow[entry] as number);
  }

  /** Brings the entries into the order of (begin, end); equal ones keep their order. */
  *sortByOffsets(): Slices<void> {
    if (this.#isSorted()) return;
    const order = yield* this.#orderByOffsets();
    const { size } = this;
    const scratch = new Uint32Array(size);
    for (const column of [
      this.nameAt,
      this.nameHash,
      this.shapeAt,
      this.kind,
      this.beginHigh,
      this.beginLow,
      this.endHigh,
      this.endLow,
    ]) {
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
  *#orderByOffsets(): Slices<Uint32Array> {
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

  /** Copies the entries to shorter arrays when more than three quarters of the room are unused. */
  trim(): void {
    const { size } = this;
    if (size * 4 >= this.nameAt.length) return;
    this.nameAt = this.nameAt.slice(0, size);
    this.nameHash = this.nameHash.slice(0, size);
    this.shapeAt = this.shapeAt.slice(0, size);
    this.kind = this.kind.slice(0, size);
    this.beginHigh = this.beginHigh.slice(0, size);
    this.beginLow = this.beginLow.slice(0, size);
    this.endHigh = this.endHigh.slice(0, size);
    this.endLow = this.endLow.slice(0, size);
  }
}
