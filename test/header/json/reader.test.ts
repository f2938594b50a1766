import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { FormatError } from '../../../src/errors/errors.js';
import { ExpectedText, JsonReader } from '../../../src/header/json/reader.js';
import { skipValue } from '../../../src/header/json/skip.js';
import {
  compareJsonStrings,
  compareStrings,
  decodeString,
} from '../../../src/header/json/strings.js';
import { anyText } from '../../support/any-text.js';

const encoder = new TextEncoder();

/** Reads a whole text as one value. */
function check(text: string | Uint8Array): void {
  const reader = new JsonReader(typeof text === 'string' ? encoder.encode(text) : text);
  skipValue(reader, 0);
  reader.expectEnd();
}

function isAccepted(text: string | Uint8Array): boolean {
  try {
    check(text);
    return true;
  } catch (error) {
    if (error instanceof FormatError) return false;
    throw error;
  }
}

/** Whether JSON.parse reads it, and not only out of leniency. */
function isStrictJson(text: string): boolean {
  let isStrict = true;
  try {
    JSON.parse(text, (key, value) => {
      if (typeof value === 'number' && !Number.isFinite(value)) isStrict = false;
      if (/\p{Surrogate}/u.test(`${key}${typeof value === 'string' ? value : ''}`))
        isStrict = false;
      return value;
    });
  } catch {
    return false;
  }
  return isStrict;
}

/** Text of characters that JSON gives a meaning, so that much of it is almost valid. */
const jsonSoup = fc
  .array(
    fc.constantFrom(
      ...'{}[],:"\\/ \t\n-+.0123eEx'.split(''),
      ...['true', 'false', 'null', '""', '"a"', '"a":', '1', '0.5', '1e400', '[1]', '{"a":1}'],
      ...['\\u00e9', '\\ud83d\\ude00', '\\ud83d', '\\n', 'é', '😀', '\u0001', '\u00a0'],
    ),
    { maxLength: 12 },
  )
  .map((parts) => parts.join(''));

describe('values', () => {
  test('valid JSON is accepted', () => {
    fc.assert(fc.property(fc.json({ maxDepth: 6 }), (text) => check(text)));
  });

  test('the verdict is that of JSON.parse, made strict', () => {
    fc.assert(
      fc.property(jsonSoup, (text) => {
        expect(isAccepted(text)).toBe(isStrictJson(text));
      }),
      { numRuns: 5000 },
    );
  });

  test('no strict prefix of a container is accepted', () => {
    fc.assert(
      fc.property(fc.json({ maxDepth: 4 }), fc.nat(), (text, cut) => {
        const bytes = encoder.encode(`[${text}]`);
        expect(isAccepted(bytes.subarray(0, cut % bytes.length))).toBe(false);
      }),
    );
  });

  test.each([
    ['[', ']'],
    ['{"a":', '}'],
  ])('127 levels of %s are accepted, 128 are not', (open, close) => {
    const nested = (depth: number): string =>
      `${open.repeat(depth - 1)}${open}1${close}${close.repeat(depth - 1)}`;
    expect(isAccepted(nested(127))).toBe(true);
    expect(isAccepted(nested(128))).toBe(false);
  });
});

describe('numbers', () => {
  test.each([
    ['1e308', true],
    ['1e309', false],
    ['0e999999999999999999999', true],
    ['1e-999999999999999999999', true],
    [`0.${'0'.repeat(5000)}1e5000`, true],
    [`0.${'0'.repeat(5000)}1e5310`, false],
    [`1${'0'.repeat(5000)}e-5000`, true],
    ['9'.repeat(308), true],
    ['9'.repeat(309), false],
    [`1${'0'.repeat(308)}`, true],
    ['179769313486231580793e289', false],
    ['179769313486231570814e288', true],
  ])('%s is accepted: %s', (literal, expected) => {
    expect(isAccepted(literal)).toBe(expected);
    expect(isAccepted(`-${literal}`)).toBe(expected);
  });

  test('a number is accepted when JavaScript reads it as finite', () => {
    const digits = fc.stringMatching(/^(0|[1-9][0-9]{0,320})(\.[0-9]{1,20})?(e[-+]?[0-9]{1,3})?$/);
    fc.assert(
      fc.property(digits, (literal) => {
        expect(isAccepted(literal)).toBe(Number.isFinite(Number(literal)));
      }),
    );
  });

  test('integers are exact up to 2^64 - 1', () => {
    fc.assert(
      fc.property(fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (value) => {
        const reader = new JsonReader(encoder.encode(` ${value},`));
        expect(reader.readUnsigned()).toBe(Number(value));
        const [low = 0, high = 0] = reader.halves;
        expect((BigInt(high) << 32n) | BigInt(low)).toBe(value);
      }),
    );
  });

  test.each([
    '18446744073709551616',
    '9'.repeat(400),
    '00',
    '-1',
    '-0',
    '1.0',
    '1e0',
    '1E0',
    '',
    'x',
    '1234567890123456.0',
    '1234567890123456e0',
    '1234567890123456E0',
    '0123456789012345678',
  ])('%s is no unsigned integer', (text) => {
    const reader = new JsonReader(encoder.encode(`${text} `));
    expect(() => reader.readUnsigned()).toThrow(FormatError);
  });
});

/** The neighbours of a byte: up to four letters, or up to four digits. */
const NEIGHBOURS = ['az', '01'].flatMap(([first = '', last = '']) =>
  Array.from({ length: 25 }, (_, i) => [first.repeat(i % 5), last.repeat(Math.floor(i / 5))]),
);

const someText = anyText({ maxLength: 20 });

/** A text as JSON, with some of its UTF-16 units as escapes. */
const spelling = fc.tuple(someText, fc.infiniteStream(fc.boolean())).map(([text, escapes]) => {
  let json = '"';
  for (const character of text) {
    const isEscaped = escapes.next().value as boolean;
    const units = Array.from({ length: character.length }, (_, i) => character.charCodeAt(i));
    json += isEscaped
      ? units.map((unit) => `\\u${unit.toString(16).padStart(4, '0')}`).join('')
      : JSON.stringify(character).slice(1, -1);
  }
  return { text, bytes: encoder.encode(`${json}"`) };
});

describe('strings', () => {
  test('are decoded as JSON.parse does, byte order marks included', () => {
    fc.assert(
      fc.property(spelling, ({ text, bytes }) => {
        const reader = new JsonReader(bytes);
        expect(decodeString(bytes, reader.readString())).toBe(text);
        expect(reader.at).toBe(bytes.length);
      }),
    );
    expect(decodeString(encoder.encode('"\ufeffa"'), 1)).toBe('\ufeffa');
  });

  test('compare by the bytes of their UTF-8, however they are spelled', () => {
    fc.assert(
      fc.property(spelling, spelling, (left, right) => {
        const expected = Buffer.compare(Buffer.from(left.text), Buffer.from(right.text));
        expect(Math.sign(compareStrings(left.bytes, 1, right.bytes, 1))).toBe(expected);
        const [a, b] = [new JsonReader(left.bytes), new JsonReader(right.bytes)];
        expect(Math.sign(compareJsonStrings(a, 1, b, 1))).toBe(expected);
      }),
    );
  });

  test('every byte is accepted where JSON accepts it, at every distance from the end', () => {
    for (let byte = 0; byte < 0x80; byte++) {
      for (const [before, after] of NEIGHBOURS) {
        const text = `"${before}${String.fromCharCode(byte)}${after}"`;
        expect(isAccepted(text), JSON.stringify(text)).toBe(isStrictJson(text));
      }
    }
  });

  test('bytes are UTF-8 exactly when TextDecoder says so', () => {
    const decoder = new TextDecoder('utf-8', { fatal: true });
    const byte = fc.oneof(
      fc.constantFrom(
        0xc0,
        0xc2,
        0xe0,
        0xed,
        0xef,
        0xf0,
        0xf4,
        0xf5,
        0x80,
        0x8f,
        0x90,
        0x9f,
        0xa0,
        0xbf,
      ),
      fc.integer({ min: 0x23, max: 0x5b }),
    );
    fc.assert(
      fc.property(fc.array(byte, { maxLength: 6 }), (content) => {
        const bytes = Uint8Array.from([0x22, ...content, 0x22]);
        let isUtf8 = true;
        try {
          decoder.decode(bytes);
        } catch {
          isUtf8 = false;
        }
        expect(isAccepted(bytes)).toBe(isUtf8);
      }),
      { numRuns: 5000 },
    );
  });
});

test('messages say what was expected, what was found, and where', () => {
  expect(() => check('{"a" 1}')).toThrow('expected ":" after the key at header byte 5, found "1"');
  expect(() => check('[1')).toThrow('found the end of the header');
  expect(() => check('"abc')).toThrow('expected the closing quote of a string at header byte 4');
  expect(() => check('"\\udc00"')).toThrow(
    'expected an escaped low surrogate to follow a high one',
  );
  expect(() => check('{1:2}')).toThrow('expected a key in double quotes at header byte 1');
  expect(() => check(Uint8Array.of(0x5b, 0xff))).toThrow(
    'expected UTF-8, found byte 0xff at header byte 1',
  );
});

test('errors name the file', () => {
  const reader = new JsonReader(encoder.encode('x'), { path: 'model.safetensors' });
  expect(() => reader.fail('a value')).toThrow(
    expect.objectContaining({ path: 'model.safetensors' }),
  );
});

describe('compareJsonStrings', () => {
  // The bytes after the closing quote differ, and escapes may cross the compared words.
  const piece = fc.constantFrom('a', 'b', '\\"', '\\\\', '\\u0061', 'é');
  const text = fc.array(piece, { maxLength: 9 }).map((pieces) => pieces.join(''));

  test('agrees with compareStrings, whatever follows', () => {
    const reader = (string: string, rest: string): JsonReader =>
      new JsonReader(encoder.encode(`"${string}"${rest}`));
    fc.assert(
      fc.property(text, text, fc.boolean(), (one, other, isSame) => {
        const left = reader(one, ':1234');
        const right = reader(isSame ? one : other, ', "');
        const expected = compareStrings(left.bytes, 1, right.bytes, 1);
        expect(Math.sign(compareJsonStrings(left, 1, right, 1))).toBe(Math.sign(expected));
        if (isSame) expect(expected).toBe(0);
      }),
      { numRuns: 2000 },
    );
  });
});

test('skipRepeated consumes what stands there again, whole, and nothing else', () => {
  const text = 'abcdefghijklm';
  for (const begin of [0, 1, 3]) {
    for (let end = begin + 1; end <= text.length; end++) {
      const expected = text.slice(begin, end);
      for (let other = 0; other <= expected.length; other++) {
        const isThere = other === expected.length;
        const again = isThere
          ? expected
          : `${expected.slice(0, other)}X${expected.slice(other + 1)}`;
        for (const behind of ['', 'n']) {
          const reader = new JsonReader(encoder.encode(`${text}|${again}${behind}`));
          reader.at = 14;
          expect(reader.skipRepeated(begin, end), `${expected} in ${again}`).toBe(isThere);
          expect(reader.at).toBe(isThere ? 14 + expected.length : 14);
        }
      }
      const cut = new JsonReader(encoder.encode(`${text}|${expected.slice(0, -1)}`));
      cut.at = 14;
      expect(cut.skipRepeated(begin, end)).toBe(false);
    }
  }
  expect(new JsonReader(encoder.encode(text)).skipRepeated(3, 3)).toBe(false);
});

test.each([
  ['1:', 1, 1],
  ['12]', 12, 2],
  ['999999999999999,', 999_999_999_999_999, 15],
  ['1000000000000000,', -1, 0],
  ['01,', -1, 0],
  ['/', -1, 0],
])('readShortUnsigned of %s', (text, value, at) => {
  const reader = new JsonReader(encoder.encode(text));
  expect(reader.readShortUnsigned()).toBe(value);
  expect(reader.at).toBe(at);
});

test.each([4, 5, 8, 11])('skipLiteral consumes %i bytes, also at the end of the text', (length) => {
  const text = 'abcdefghijk'.slice(0, length);
  for (const [before, behind] of [
    ['', ''],
    ['1', ''],
    ['', '2'],
  ]) {
    const reader = new JsonReader(encoder.encode(`${before}${text}${behind}`));
    reader.at = before?.length ?? 0;
    expect(reader.skipLiteral(new ExpectedText(text))).toBe(true);
    expect(reader.at).toBe((before?.length ?? 0) + length);
    expect(reader.skipLiteral(new ExpectedText(text))).toBe(false);
  }
  for (let other = 0; other < length; other++) {
    const reader = new JsonReader(
      encoder.encode(`${text.slice(0, other)}X${text.slice(other + 1)}`),
    );
    expect(reader.skipLiteral(new ExpectedText(text))).toBe(false);
    expect(reader.at).toBe(0);
  }
});
