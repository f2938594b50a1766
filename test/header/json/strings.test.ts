import { describe, expect, test } from 'vitest';
import {
  compareJsonStrings,
  compareStrings,
  decodeString,
  encodeText,
  escapedUnit,
  isHighSurrogate,
  isLowSurrogate,
  PLAIN_BYTES,
  printableEnd,
  StringBytes,
  unescapedEnd,
} from '../../../src/header/json/strings.js';

const ALL_BYTES = Array.from({ length: 256 }, (_, byte) => byte);

/** A text as escapes of its UTF-16 units. */
function escaped(text: string): string {
  const units = Array.from({ length: text.length }, (_, i) => text.charCodeAt(i));
  return units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('');
}

test('halves of pairs are from d800 to dbff, and from dc00 to dfff', () => {
  const units = [0, 0xd7ff, 0xd800, 0xdbff, 0xdc00, 0xdfff, 0xe000, 0xffff];
  expect(units.filter(isHighSurrogate)).toEqual([0xd800, 0xdbff]);
  expect(units.filter(isLowSurrogate)).toEqual([0xdc00, 0xdfff]);
});

test('the bytes that stand for themselves are ASCII without controls, quotes and backslashes', () => {
  const plain = ALL_BYTES.filter((byte) => PLAIN_BYTES[byte] === 1);
  const expected = ALL_BYTES.filter(
    (byte) => byte >= 0x20 && byte < 0x80 && byte !== 0x22 && byte !== 0x5c,
  );
  expect(plain).toEqual(expected);
});

describe('escapedUnit', () => {
  test('knows the escapes of JSON, and no others', () => {
    const units = ALL_BYTES.map((byte) => [byte, escapedUnit(Uint8Array.of(0x5c, byte), 0)]);
    const known = units.filter(([, unit]) => unit !== -1) as [number, number][];
    const pairs = known.map(([byte, unit]) => [String.fromCharCode(byte), unit]);
    const letters = ['"', '/', '\\', 'b', 'f', 'n', 'r', 't'];
    expect(pairs).toEqual(
      letters.map((letter) => [letter, (JSON.parse(`"\\${letter}"`) as string).charCodeAt(0)]),
    );
    expect(escapedUnit(Uint8Array.of(0x5b, 0x6e), 0)).toBe(-1);
  });

  test('reads four digits of either case, each at its place', () => {
    for (let place = 0; place < 4; place++) {
      for (const byte of ALL_BYTES) {
        const bytes = Uint8Array.from([0x5c, 0x75, 0x30, 0x30, 0x30, 0x30]);
        bytes[2 + place] = byte;
        const digit = Number.parseInt(String.fromCharCode(byte), 16);
        const expected = Number.isNaN(digit) ? -1 : digit * 16 ** (3 - place);
        expect(escapedUnit(bytes, 0)).toBe(expected);
      }
    }
    expect(escapedUnit(new TextEncoder().encode('\\uAbC'), 0)).toBe(-1);
  });
});

const EDGES = [0x01, 0x7f, 0x80, 0x7ff, 0x800, 0xd7ff, 0xe000, 0xffff, 0x10000, 0xfffff, 0x10ffff];

test.each(EDGES)('the bytes of an escaped U+%i are its UTF-8', (point) => {
  const text = `a${String.fromCodePoint(point)}z`;
  const json = new TextEncoder().encode(`a${escaped(text.slice(1, -1))}z"`);
  const rest = new StringBytes(json, 0);
  const bytes: number[] = [];
  for (let byte = rest.next(); byte !== -1; byte = rest.next()) bytes.push(byte);
  expect(bytes).toEqual([...new TextEncoder().encode(text)]);
  expect(rest.next()).toBe(-1);
  expect(decodeString(json, 0)).toBe(text);
});

describe('order', () => {
  const words = [
    '',
    'a',
    'ab',
    'abcd',
    'abcde',
    'abcdé',
    'b',
    '"',
    '!',
    '#',
    '[',
    '\\',
    ']',
    'é',
    '€',
    '😀',
  ];
  const spellings = words.flatMap((word) => {
    const mixed = word.slice(0, 1) + escaped(word.slice(1));
    const plain = JSON.stringify(word).slice(1, -1);
    return [plain, escaped(word), ...(/^["\\\ud800-\udfff]/.test(word) ? [] : [mixed])].map(
      (spelling) => ({ word, spelling }),
    );
  });

  test.each(['', ':1', '"""""""'])('is that of the bytes, with %j behind the quote', (behind) => {
    for (const left of spellings) {
      for (const right of spellings) {
        const expected = Buffer.compare(Buffer.from(left.word), Buffer.from(right.word));
        const a = encodeText(`x"${left.spelling}"${behind}`);
        const b = encodeText(`"${right.spelling}"`);
        expect(Math.sign(compareStrings(a.bytes, 2, b.bytes, 1))).toBe(expected);
        expect(Math.sign(compareJsonStrings(a, 2, b, 1))).toBe(expected);
        expect(Math.sign(compareJsonStrings(b, 1, a, 2))).toBe(-expected || 0);
      }
    }
  });
});

describe('texts with much in common', () => {
  /** The sign of comparing two strings with these bytes after their quotes. */
  function compare(left: string, right: string, leftTail = '', rightTail = leftTail): number {
    const a = encodeText(`"${left}"${leftTail}`);
    const b = encodeText(`"${right}"${rightTail}`);
    return Math.sign(compareJsonStrings(a, 1, b, 1));
  }

  test('are the same up to their quotes, though what follows begins the same', () => {
    for (let length = 0; length < 9; length++) {
      const text = 'layer.012'.slice(0, length);
      expect(compare(text, text, ':{"dtype":"F32"', ':{"dtype":"F16"')).toBe(0);
      expect(compare(text, text, '""""""""x', '""""""""y')).toBe(0);
    }
  });

  test('may part inside an escape', () => {
    for (let length = 0; length < 9; length++) {
      const text = 'layer.012'.slice(0, length);
      // The upper case of a digit comes before all lower ones.
      expect(compare(`${text}\\u00E9`, `${text}\\u00e8`)).toBe(1);
      expect(compare(`${text}\\u00e8`, `${text}\\u00E9`)).toBe(-1);
    }
  });

  test('are not the same in reverse', () => {
    expect(compare('abcd', 'dcba')).toBe(-1);
    expect(compare('abcdx', 'dcbax')).toBe(-1);
  });
});

describe('ends of strings', () => {
  /** One byte of each kind among others, at each place of a word, near to the end and far from it. */
  function* texts(): Generator<{ bytes: Uint8Array; byte: number; at: number; end: number }> {
    for (const byte of ALL_BYTES) {
      for (const before of [0, 1, 2, 3, 4, 7]) {
        for (const after of [0, 1, 4, 9]) {
          for (const other of [0x61, 0x30]) {
            const bytes = new Uint8Array(before + after + 3).fill(other);
            const end = before + after + 2;
            bytes[before + 1] = byte;
            bytes[end] = 0x22;
            yield { bytes, byte, at: before + 1, end };
          }
        }
      }
    }
  }

  test('of printable ASCII are found, those of others are not', () => {
    for (const { bytes, byte, at, end } of texts()) {
      const isPrintable = byte >= 0x20 && byte <= 0x7e && byte !== 0x5c;
      const expected = byte === 0x22 ? at : isPrintable ? end : -1;
      const view = new DataView(bytes.buffer);
      expect(printableEnd({ bytes, view }, 1), `${byte} at ${at}`).toBe(expected);
    }
  });

  test('without escapes are found, those of others are not', () => {
    for (const { bytes, byte, at, end } of texts()) {
      expect(unescapedEnd(bytes, 1)).toBe(byte === 0x22 ? at : byte === 0x5c ? -1 : end);
    }
  });
});
