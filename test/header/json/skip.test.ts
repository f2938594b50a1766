import { afterEach, describe, expect, test, vi } from 'vitest';
import { JsonReader } from '../../../src/header/json/reader.js';
import { skipNull, skipValue } from '../../../src/header/json/skip.js';

function readerOf(text: string): JsonReader {
  return new JsonReader(new TextEncoder().encode(text));
}

function check(text: string): void {
  const reader = readerOf(text);
  skipValue(reader, 0);
  reader.expectEnd();
}

afterEach(() => {
  vi.restoreAllMocks();
});

describe('words', () => {
  test.each(['true', 'false', 'null'])('%s is whole, and no other', (word) => {
    expect(() => check(` ${word}`)).not.toThrow();
    for (let at = 0; at < word.length; at++) {
      const other = `${word.slice(0, at)}x${word.slice(at + 1)}`;
      for (const text of [other, word.slice(0, at)]) {
        expect(() => check(` ${text}`)).toThrow(/expected a JSON value at header byte 1, found/);
      }
    }
    expect(() => check(`${word}e`)).toThrow('expected nothing but whitespace at header byte');
  });

  test('null is consumed where it stands, and nothing else', () => {
    const reader = readerOf(' null,1');
    expect(skipNull(reader)).toBe(true);
    expect(reader.at).toBe(5);
    expect(skipNull(reader)).toBe(false);
    expect(reader.at).toBe(5);
  });
});

describe('numbers', () => {
  test.each([
    ['01', 'a number without leading zeros at header byte 0'],
    ['-01.5', 'a number without leading zeros at header byte 0'],
    ['1d5', 'nothing but whitespace at header byte 1'],
    ['1D5', 'nothing but whitespace at header byte 1'],
    ['1.', 'a digit at header byte 2'],
    ['1e+', 'a digit at header byte 3'],
    ['-', 'a digit at header byte 1'],
    ['19e307', 'a number within the range of a double at header byte 0'],
  ])('%s is wrong', (text, expected) => {
    expect(() => check(text)).toThrow(`expected ${expected}, found`);
  });

  test('of more digits than are collected keep their size', () => {
    const zeros = '0'.repeat(1000);
    expect(() => check(`1${zeros}e-692`)).not.toThrow();
    expect(() => check(`1${zeros}e-691`)).toThrow('within the range of a double');
    expect(() => check(`1.${zeros}e308`)).not.toThrow();
    expect(() => check(`10.${zeros}e308`)).toThrow('within the range of a double');
    expect(() => check(`${zeros.slice(1)}`)).toThrow('without leading zeros');
  });

  test('of any length take the memory of 800 digits', () => {
    const collected = vi.spyOn(String, 'fromCharCode');
    check(`1.${'2'.repeat(5000)}e0`);
    expect(collected).toHaveBeenCalledTimes(800);
    check(`0.${'0'.repeat(5000)}e0`);
    expect(collected).toHaveBeenCalledTimes(800);
  });
});
