import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decodeStrings, sortedStrings } from '../../../src/header/json/string-lists.js';
import { anyText } from '../../support/any-text.js';

/** A text of strings, and where each begins. */
function textOf(strings: readonly string[], spelling = JSON.stringify): [Uint8Array, Uint32Array] {
  const encoder = new TextEncoder();
  const parts = strings.map((string) => encoder.encode(spelling(string)));
  const starts: number[] = [];
  let at = 0;
  for (const part of parts) {
    starts.push(at + 1);
    at += part.length;
  }
  return [new Uint8Array(Buffer.concat(parts)), Uint32Array.from(starts)];
}

const byUtf8 = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

function expectAll(strings: readonly string[], spelling = JSON.stringify): void {
  const [bytes, starts] = textOf(strings, spelling);
  expect(decodeStrings(bytes, starts, strings.length)).toEqual(strings);
  expect(sortedStrings(bytes, starts, strings.length)).toEqual([...strings].sort(byUtf8));
}

describe('strings of a text, decoded and sorted', () => {
  test('of any characters', () => {
    fc.assert(fc.property(fc.array(anyText()), (strings) => expectAll(strings)));
  });

  test('in pieces: strings that reach from one to the next, or over several', () => {
    for (const filler of ['a', '\u00e9', '\u20ac', '\u{1f600}']) {
      const long = filler.repeat(50_000);
      expectAll(['b', long, 'a', `${long}x`, 'c', '\ufb01', long.slice(2), '']);
    }
    // Every byte of a character in turn comes first behind the cut.
    for (let shift = 0; shift < 6; shift++) {
      const before = 'a'.repeat(2 ** 16 - 8 + shift);
      expectAll([before, 'b', '\u{1f600}', '\u20ac', 'c', 'a']);
    }
  });

  test('with escapes', () => {
    const escaped = (text: string): string =>
      `"${Array.from({ length: text.length }, (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')}"`;
    expectAll(['b', 'a', '\ufb01', '\u{1f600}', 'ab'], escaped);
    expectAll(['b"', 'a\\', '\\"', '\n']);
  });

  test('those that are asked for, in the order of their starts', () => {
    const [bytes, starts] = textOf(['c', 'b', 'a']);
    expect(decodeStrings(bytes, starts.reverse(), 2)).toEqual(['a', 'b']);
  });
});
