import { describe, expect, test } from 'vitest';
import { EncodedText } from '../../../src/header/json/encoded-text.js';
import { encodeText } from '../../../src/header/json/strings.js';

/** First sizes of the buffer: what is appended finds room, little room, and none. */
const SIZES = Array.from({ length: 24 }, (_, i) => i);

function decoded(text: EncodedText): string {
  return new TextDecoder().decode(text.encoded());
}

describe('integers', () => {
  const powers = Array.from({ length: 16 }, (_, i) => 10 ** i);
  const binary = [31, 32, 33, 52, 53].map((bits) => 2 ** bits);
  const edges = [...powers, ...binary].flatMap((edge) => [edge - 1, edge, edge + 1]);
  const numbers = [...edges, 4_294_967_299, 21_474_836_480].filter(Number.isSafeInteger);

  test.each(SIZES)('are written in decimal, with room for %i bytes', (size) => {
    for (const number of numbers) {
      const text = new EncodedText(undefined, size);
      text.append('[');
      text.appendInteger(number);
      text.append(']');
      expect(text.byteLength).toBe(String(number).length + 2);
      expect(decoded(text)).toBe(`[${number}]`);
    }
  });
});

describe('parts', () => {
  const source = encodeText(Array.from({ length: 300 }, (_, i) => i % 10).join(''));
  const whole = new TextDecoder().decode(source.bytes);

  test.each([0, 1, 2, 3, 4, 5, 8, 9, 127, 128, 129, 297])('of %i bytes are copied', (length) => {
    for (const size of SIZES) {
      for (const begin of [0, 3]) {
        const text = new EncodedText(undefined, size);
        text.append('(');
        text.appendPart(source, begin, begin + length);
        text.append(')');
        expect(decoded(text)).toBe(`(${whole.slice(begin, begin + length)})`);
      }
    }
  });

  test('are whole unless told', () => {
    const text = new EncodedText();
    text.appendPart(source);
    text.appendPart(source, 290);
    expect(decoded(text)).toBe(whole + whole.slice(290));
  });
});

test.each(SIZES)('text of one to four bytes a character finds room, from %i bytes on', (size) => {
  const text = new EncodedText(undefined, size);
  for (let i = 0; i < 20; i++) {
    text.append('aé€😀');
    if (i % 3 === 0) expect(text.byteLength).toBe((i + 1) * 10);
  }
  expect(decoded(text)).toBe('aé€😀'.repeat(20));
});

test('is copied to the start of a larger target', () => {
  const text = new EncodedText();
  text.append('abc');
  const target = new Uint8Array(5).fill(1);
  text.copyTo(target);
  expect([...target]).toEqual([0x61, 0x62, 0x63, 1, 1]);
});

describe('growth', () => {
  test('is told before more memory is taken, and after text was encoded', () => {
    const lengths: number[] = [];
    const text = new EncodedText((byteLength) => lengths.push(byteLength), 8);
    text.append('abcd');
    expect(lengths).toEqual([]);
    expect(text.byteLength).toBe(4);
    // Room for three bytes a character: twelve.
    expect(lengths).toEqual([0, 4]);
    text.appendInteger(12_345_678);
    expect(lengths).toEqual([0, 4]);
    text.appendInteger(1);
    expect(lengths).toEqual([0, 4]);
    for (let i = 0; i < 12; i++) text.appendInteger(7);
    expect(lengths).toEqual([0, 4, 16]);
    expect(decoded(text)).toBe('abcd12345678177777777777'.padEnd(25, '7'));
  });

  test('at least doubles the room', () => {
    let grown = 0;
    const text = new EncodedText(() => grown++, 1);
    for (let i = 0; i < 1024; i++) text.appendInteger(1);
    expect(grown).toBe(10);
  });

  test('ends with the error of whom it is told', () => {
    const text = new EncodedText(() => {
      throw new RangeError('enough');
    }, 1);
    expect(() => text.appendInteger(10)).toThrow('enough');
  });

  test('encodes long text in pieces of 65 536 units', () => {
    let told = 0;
    const text = new EncodedText(() => told++, 2 ** 20);
    text.append('a'.repeat(65_535));
    expect(told).toBe(0);
    text.append('a');
    expect(told).toBe(1);
  });
});
