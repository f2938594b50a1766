import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { SortedNames } from '../../../src/header/json/sorted-names.js';
import { encodeText } from '../../../src/header/json/strings.js';
import { anyText } from '../../support/any-text.js';

const byUtf8 = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** Sorted names one after the other in a text, behind a key that is not among them. */
function sortedNamesOf(names: readonly string[], spelling = JSON.stringify): SortedNames {
  const starts: number[] = [];
  let text = '{"weight_map":';
  for (const name of names) {
    starts.push(Buffer.byteLength(text) + 1);
    text += `${spelling(name)}:0,`;
  }
  return new SortedNames(encodeText(text), Uint32Array.from(starts));
}

const escaped = (text: string): string =>
  `"${Array.from({ length: text.length }, (_, i) => `\\u${text.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')}"`;

describe('names in their order', () => {
  test.each([0, 1, 2, 3, 7, 8, 25])(
    'of %i, each is found, and what lies between is not',
    (count) => {
      // Names next to each other differ by one, so that their difference is 1 or -1.
      const names = Array.from({ length: count }, (_, i) => String.fromCharCode(0x61 + i));
      const table = sortedNamesOf(names);
      expect(names.map((name) => table.find(name))).toEqual(names.map((_, entry) => entry));
      for (const name of ['', '`', ...names.map((each) => `${each}!`), '{', '\ud800', 'a\udc00']) {
        expect(table.find(name)).toBe(-1);
      }
      expect(table.names()).toEqual(names);
      expect(table.sortedNames()).toEqual(names);
    },
  );

  test.each([
    ['as they are', JSON.stringify],
    ['as escapes', escaped],
  ])('of any characters, spelled %s, are found and named', (_, spelling) => {
    const anyNames = fc.array(anyText(), { maxLength: 20 });
    fc.assert(
      fc.property(anyNames, anyText(), (unsorted, other) => {
        const names = [...new Set(unsorted)].sort(byUtf8);
        const table = sortedNamesOf(names, spelling);
        expect(names.map((name) => table.find(name))).toEqual(names.map((_, entry) => entry));
        expect(names.map((_, entry) => table.name(entry))).toEqual(names);
        expect(table.find(other)).toBe(names.indexOf(other));
      }),
      { numRuns: 30 },
    );
  });
});
