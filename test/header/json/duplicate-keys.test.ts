import fc from 'fast-check';
import { expect, test } from 'vitest';
import { ObjectKeys } from '../../../src/header/json/duplicate-keys.js';
import { CLOSE_BRACE, JsonReader } from '../../../src/header/json/reader.js';
import { skipValue } from '../../../src/header/json/skip.js';
import { decodeString } from '../../../src/header/json/strings.js';

const encoder = new TextEncoder();

/** Reads `{"a":0,…}` in an array and asks for a repeated key; the text of that key, or undefined. */
function repeatedKeyOf(keys: readonly string[]): string | undefined {
  const members = keys.map((key) => `${key}:{"x":0}`);
  const reader = new JsonReader(encoder.encode(`[ {${members.join(' ,')}} ]`));
  const found = new ObjectKeys();
  found.add(3);
  found.clear();
  reader.at = 2;
  if (reader.enter(CLOSE_BRACE)) {
    do {
      found.add(reader.readKey());
      skipValue(reader, 0);
    } while (reader.hasNext(CLOSE_BRACE));
  }
  const after = reader.at;
  const at = found.findRepeated(reader, 2);
  expect(reader.at).toBe(after);
  return at === -1 ? undefined : decodeString(reader.bytes, at);
}

const key = fc.oneof(fc.nat(200).map(String), fc.constantFrom('a', 'é', '\\u0061', '\\u00e9', ''));

test.each([
  ['few', 16],
  ['many', 200],
])(
  'the first key of %s that repeats an earlier one is found, however it is spelled',
  (_, count) => {
    const objects = fc.array(
      key.map((text) => `"${text}"`),
      { maxLength: count, size: 'max' },
    );
    fc.assert(
      fc.property(objects, (keys) => {
        const texts = keys.map((text) => JSON.parse(text) as string);
        const expected = texts.find((text, i) => texts.indexOf(text) < i);
        expect(repeatedKeyOf(keys)).toBe(expected);
      }),
      { numRuns: 300 },
    );
  },
);

test.each([[1], [2], [16], [17], [63], [64], [65], [1000]])(
  'of %i keys none is repeated, or the last one',
  (count) => {
    const keys = Array.from({ length: count }, (_, i) => `"key ${i}"`);
    expect(repeatedKeyOf(keys)).toBeUndefined();
    for (const repeated of new Set([0, count >> 1, count - 1])) {
      expect(repeatedKeyOf([...keys, keys[repeated] as string])).toBe(`key ${repeated}`);
    }
  },
);

test('keys that differ are told apart, though parts of their hashes are the same', () => {
  // Of 100 000 keys in a megabyte, some dozen meet another one with the same twelve bits.
  const keys = Array.from({ length: 100_000 }, (_, i) => `"${i}"`);
  expect(repeatedKeyOf(keys)).toBeUndefined();
  expect(repeatedKeyOf([...keys, '"99999"', '"0"'])).toBe('99999');
});

test('keys of the object before are forgotten', () => {
  const reader = new JsonReader(encoder.encode('"a""b""a"'));
  const [a, b, again] = [reader.readString(), reader.readString(), reader.readString()];
  const keys = new ObjectKeys();
  for (const start of [b, a]) keys.add(start);
  keys.clear();
  keys.add(again);
  expect(keys.findRepeated(reader, 0)).toBe(-1);
  keys.add(a);
  expect(keys.findRepeated(reader, 0)).toBe(a);
});
