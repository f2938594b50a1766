/** Inputs as bytes: changed by bits, numbers, words and pieces of others; made smaller by cutting pieces out. */
import type { Random } from '../support/random.js';
import type { Form } from './target.js';

/** Longer inputs show nothing that shorter ones do not, and take longer. */
const MAX_BYTE_LENGTH = 1 << 16;

/** Digits at which readers go wrong. */
const NUMBERS: readonly string[] = [
  '0', '1', '-1', '255', '256', '65535', '65536', '2147483647', '2147483648', '4294967295',
  '4294967296', '9007199254740991', '9007199254740992', '18446744073709551615', '1e3', '1.0', '00',
]; // biome-ignore format: a table

type Change = (bytes: Buffer, other: Buffer, random: Random, words: readonly string[]) => Buffer;

function place(bytes: Buffer, random: Random): number {
  return random.below(bytes.length + 1);
}

/** Bytes with a piece put at a place, over so many of them. */
function splice(bytes: Buffer, at: number, count: number, piece: Buffer): Buffer {
  return Buffer.concat([bytes.subarray(0, at), piece, bytes.subarray(at + count)]);
}

function pieceOf(bytes: Buffer, random: Random): Buffer {
  const at = place(bytes, random);
  return bytes.subarray(at, at + random.from(1, random.pick([4, 16, 64, 512])));
}

const CHANGES: readonly Change[] = [
  function flipBit(bytes, _, random) {
    const changed = Buffer.from(bytes);
    const at = random.below(changed.length);
    changed[at] = (changed[at] as number) ^ (1 << random.below(8));
    return changed;
  },
  function setByte(bytes, _, random) {
    const changed = Buffer.from(bytes);
    changed[random.below(changed.length)] = random.below(256);
    return changed;
  },
  function cut(bytes, _, random) {
    return splice(bytes, place(bytes, random), pieceOf(bytes, random).length, Buffer.alloc(0));
  },
  function repeat(bytes, _, random) {
    return splice(bytes, place(bytes, random), 0, pieceOf(bytes, random));
  },
  function take(bytes, other, random) {
    return splice(bytes, place(bytes, random), random.below(8), pieceOf(other, random));
  },
  function cross(bytes, other, random) {
    return Buffer.concat([
      bytes.subarray(0, place(bytes, random)),
      other.subarray(place(other, random)),
    ]);
  },
  function insert(bytes, _, random) {
    return splice(bytes, place(bytes, random), 0, random.bytes(random.from(1, 8)));
  },
  function insertWord(bytes, _, random, words) {
    const word = words.length === 0 ? '' : random.pick(words);
    return splice(bytes, place(bytes, random), random.below(word.length + 1), latin1(word));
  },
  function overwriteNumber(bytes, _, random) {
    const width = random.pick([2, 4, 8]);
    if (bytes.length < width) return bytes;
    const changed = Buffer.from(bytes);
    const at = random.below(changed.length - width + 1);
    const value = random.number(changed.readUIntLE(at, Math.min(width, 4)));
    changed.writeUIntLE(width === 2 ? value & 0xffff : value, at, Math.min(width, 4));
    return changed;
  },
  function changeDigits(bytes, _, random) {
    const numbers = [...bytes.toString('latin1').matchAll(/-?\d+/g)];
    if (numbers.length === 0) return bytes;
    const { 0: digits, index } = random.pick(numbers);
    const near = String(
      BigInt(digits.slice(0, 25) === '-' ? 0 : digits.slice(0, 25)) + BigInt(random.from(-2, 2)),
    );
    const copied = random.pick(numbers)[0];
    const text = random.pick([near, near, copied, random.pick(NUMBERS)]);
    return splice(bytes, index, digits.length, latin1(text));
  },
  function end(bytes, _, random) {
    return bytes.subarray(0, place(bytes, random));
  },
];

function latin1(text: string): Buffer {
  return Buffer.from(text, 'latin1');
}

/** One change or a few, one after the other. */
function mutate(input: Buffer, other: Buffer, random: Random, words: readonly string[]): Buffer {
  let changed = input;
  for (let count = random.pick([1, 1, 1, 2, 2, 3, 5]); count > 0; count--) {
    if (changed.length === 0) return Buffer.from(other);
    changed = random.pick(CHANGES)(changed, other, random, words);
  }
  return changed.subarray(0, MAX_BYTE_LENGTH);
}

/** Without a piece, from half of it to single bytes; then with plainer bytes. */
function* reductions(input: Buffer): Iterable<Buffer> {
  for (let length = input.length >> 1; length > 0; length >>= 1) {
    for (let at = 0; at < input.length; at += length) {
      yield splice(input, at, length, Buffer.alloc(0));
    }
  }
}

export const BYTES: Form = { mutate, reductions };
