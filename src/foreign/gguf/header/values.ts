/** The metadata of a GGUF file: its values are checked when the file is opened, and decoded on use. */

import { isUint8Array } from '../../../errors/brand-checks.js';
import type { PlainValue } from '../../../file/source/plain-value.js';
import type { Work } from '../../../work/work.js';
import { ITEMS_PER_YIELD } from '../../../work/yielding.js';
import { decodedUtf8, type HeaderBytes, uint64At } from './header-bytes.js';

const STRING = 8;
const ARRAY = 9;

/** Bytes of a value, by the number of its type; 0 for the others. */
const WIDTHS: readonly number[] = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];

/** Arrays in arrays; ggml reads none. */
const MAX_DEPTH = 4;

/** The place of a value. */
interface Place {
  readonly type: number;
  readonly at: number;
}

/** Where all values are. */
export type Places = ReadonlyMap<string, Place>;

/** Skips the value of a key, and returns its place. */
export function* skipValue(header: HeaderBytes, key: string): Work<Place> {
  if (!header.has(4)) yield* header.fetch(4);
  const type = header.takeUint32();
  const { at } = header;
  yield* skip(header, type, key, 0);
  return { type, at };
}

function* skip(header: HeaderBytes, type: number, key: string, depth: number): Work<void> {
  const width = WIDTHS[type];
  if (width === undefined) {
    throw header.invalid(`the metadata key ${JSON.stringify(key)} has the unknown type ${type}`);
  }
  if (type === STRING) yield* skipString(header, key);
  else if (type === ARRAY) yield* skipArray(header, key, depth);
  else yield* skipBytes(header, width, key);
}

function* skipBytes(header: HeaderBytes, count: number, key: string): Work<void> {
  header.requireRest(count, `the metadata key ${JSON.stringify(key)}`);
  if (!header.has(count)) yield* header.fetch(count);
  header.at += count;
}

function* skipString(header: HeaderBytes, key: string): Work<void> {
  if (!header.has(header.lengthWidth)) yield* header.fetch(header.lengthWidth);
  const length = header.takeLength();
  if (header.has(length)) header.at += length;
  else yield* skipBytes(header, length, key);
}

function* skipArray(header: HeaderBytes, key: string, depth: number): Work<void> {
  if (depth === MAX_DEPTH) {
    throw header.invalid(
      `the metadata key ${JSON.stringify(key)} has arrays in more than ${MAX_DEPTH} arrays`,
    );
  }
  if (!header.has(12)) yield* header.fetch(4 + header.lengthWidth);
  const type = header.takeUint32();
  const count = header.takeLength();
  const width = WIDTHS[type];
  if (width === undefined) {
    throw header.invalid(
      `the metadata key ${JSON.stringify(key)} has items of the unknown type ${type}`,
    );
  }
  const least = width > 0 ? width : header.lengthWidth + (type === ARRAY ? 4 : 0);
  header.requireRest(count * least, `the array of the metadata key ${JSON.stringify(key)}`);
  if (width > 0) {
    yield* skipBytes(header, count * width, key);
    return;
  }
  for (let i = 0; i < count; i++) {
    if (i % ITEMS_PER_YIELD === 0) yield;
    if (type === STRING) yield* skipString(header, key);
    else yield* skipArray(header, key, depth + 1);
  }
}

/** The metadata, whose values are decoded on use. */
export class GgufValues {
  readonly #bytes: Uint8Array;
  readonly #view: DataView;
  readonly #places: Places;
  readonly #isBigEndian: boolean;
  readonly #lengthWidth: 4 | 8;
  #decoded: Map<string, PlainValue> | undefined;

  /** After all values were skipped. */
  constructor({ bytes, view, isBigEndian, lengthWidth }: HeaderBytes, places: Places) {
    this.#bytes = bytes;
    this.#view = view;
    this.#places = places;
    this.#isBigEndian = isBigEndian;
    this.#lengthWidth = lengthWidth;
  }

  /** The number of a key, of any type; undefined for other values and other keys. */
  number(key: string): number | undefined {
    const place = this.#places.get(key);
    if (place === undefined || place.type === STRING || place.type === ARRAY) return undefined;
    const value = this.#scalar(place.type, place.at);
    return typeof value === 'number' ? value : undefined;
  }

  /** Whether there is a value. */
  has(key: string): boolean {
    return this.#places.has(key);
  }

  /**
   * All values by key: integers beyond 2^53 as bigints, arrays of bytes as Uint8Array, strings that are not UTF-8 as
   * their bytes. The same Map on every call.
   */
  decode(): Map<string, PlainValue> {
    if (this.#decoded !== undefined) return this.#decoded;
    const values = new Map<string, PlainValue>();
    for (const [key, { type, at }] of this.#places) {
      values.set(key, type === ARRAY ? this.#array(at).value : this.#item(type, at));
    }
    this.#decoded = values;
    return values;
  }

  /** The values that are not arrays, as text. */
  texts(): Map<string, string> {
    const texts = new Map<string, string>();
    for (const [key, { type, at }] of this.#places) {
      if (type === ARRAY) continue;
      const value = this.#item(type, at);
      if (isUint8Array(value)) continue;
      texts.set(key, type === FLOAT32 ? float32Text(value as number) : String(value));
    }
    return texts;
  }

  #item(type: number, at: number): PlainValue {
    if (type !== STRING) return this.#scalar(type, at);
    const begin = at + this.#lengthWidth;
    const bytes = this.#bytes.subarray(begin, begin + this.#length(at));
    return decodedUtf8(bytes) ?? bytes.slice();
  }

  #length(at: number): number {
    return this.#lengthWidth === 8
      ? uint64At(this.#view, at, this.#isBigEndian)
      : this.#view.getUint32(at, !this.#isBigEndian);
  }

  #array(at: number): { value: PlainValue; end: number } {
    const type = this.#view.getUint32(at, !this.#isBigEndian);
    const count = this.#length(at + 4);
    let next = at + 4 + this.#lengthWidth;
    const width = WIDTHS[type] as number;
    if (type === 0) return { value: this.#bytes.slice(next, next + count), end: next + count };
    const items: PlainValue[] = [];
    for (let i = 0; i < count; i++) {
      if (type === ARRAY) {
        const { value, end } = this.#array(next);
        items.push(value);
        next = end;
      } else {
        items.push(this.#item(type, next));
        next += type === STRING ? this.#lengthWidth + this.#length(next) : width;
      }
    }
    return { value: items, end: next };
  }

  #scalar(type: number, at: number): number | bigint | boolean {
    const view = this.#view;
    const isLittle = !this.#isBigEndian;
    switch (type) {
      case 0:
        return view.getUint8(at);
      case 1:
        return view.getInt8(at);
      case 2:
        return view.getUint16(at, isLittle);
      case 3:
        return view.getInt16(at, isLittle);
      case 4:
        return view.getUint32(at, isLittle);
      case 5:
        return view.getInt32(at, isLittle);
      case FLOAT32:
        return view.getFloat32(at, isLittle);
      case 7:
        return view.getUint8(at) !== 0;
      case 10:
        return integerOf(view.getBigUint64(at, isLittle));
      case 11:
        return integerOf(view.getBigInt64(at, isLittle));
      default:
        return view.getFloat64(at, isLittle);
    }
  }
}

const FLOAT32 = 6;

function integerOf(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/** The shortest text that is this float32 number: 0.00001, not 0.000009999999747378752. */
export function float32Text(value: number): string {
  for (let digits = 1; digits < 9; digits++) {
    const shorter = Number(value.toPrecision(digits));
    if (Math.fround(shorter) === value) return String(shorter);
  }
  return String(value);
}
