import { describe, expect, test } from 'vitest';
import { hashString, processHashKey } from '../../../src/header/json/key-hash.js';
import { NameTable, nameReader, slotCount, tagMask } from '../../../src/header/json/name-table.js';
import { JsonReader } from '../../../src/header/json/reader.js';

interface Names {
  bytes: Uint8Array;
  starts: Uint32Array;
  hashes: Uint32Array;
}

/** Names as they stand in a text, one after the other, and their hashes. */
function textOf(names: readonly string[]): Names {
  const bytes = new TextEncoder().encode(names.map((name) => JSON.stringify(name)).join(''));
  const reader = new JsonReader(bytes);
  const starts = new Uint32Array(names.length);
  const hashes = new Uint32Array(names.length);
  for (let i = 0; i < names.length; i++) {
    starts[i] = reader.readString();
    hashes[i] = hashString(reader, starts[i] as number, processHashKey(bytes.length));
  }
  return { bytes, starts, hashes };
}

function tableOf({ bytes, starts, hashes }: Names): NameTable {
  return new NameTable(bytes, starts, hashes, starts.length);
}

describe('tagMask', () => {
  test.each([
    [1, 0xfffffffe],
    [2, 0xfffffffc],
    [255, 0xffffff00],
    [256, 0xfffffe00],
    [2 ** 30, 0x80000000],
    [2 ** 31, 0],
    [2 ** 32 - 1, 0],
  ])('leaves the bits that numbers up to %i need', (largest, mask) => {
    expect(tagMask(largest)).toBe(mask);
  });
});

test.each([
  [0, 8],
  [6, 8],
  [7, 16],
  [12, 16],
  [13, 32],
  [24, 32],
  [25, 64],
])('%i keys have %i slots, a quarter of them free', (count, slots) => {
  expect(slotCount(count)).toBe(slots);
});

describe('a table', () => {
  const names = ['a', 'b', '', 'é', '"', 'lm_head.weight', '😀'.repeat(400)];

  test('finds all names and no others', () => {
    const table = tableOf(textOf(names));
    expect(names.map((_, entry) => table.add(entry))).toEqual(names.map(() => -1));
    expect(names.map((name) => table.find(name))).toEqual(names.map((_, entry) => entry));
    expect(['c', 'aa', 'É', '\ud800', '�'].map((name) => table.find(name))).toEqual(
      new Array(5).fill(-1),
    );
    expect(table.names()).toEqual(names);
    expect(table.name(3)).toBe('é');
    expect(table.sortedNames()).toEqual([
      '',
      '"',
      'a',
      'b',
      'lm_head.weight',
      'é',
      '😀'.repeat(400),
    ]);
  });

  test.each([0, 1, 7, 0x7fffffff, 0xffffffff])(
    'tells names apart whose hashes are all %i',
    (hash) => {
      const text = textOf([...names, ...names]);
      text.hashes.fill(hash);
      const table = tableOf(text);
      const added = Array.from(text.starts, (_, entry) => table.add(entry));
      // Of two that are the same, the later one stays.
      expect(added).toEqual([...names.map(() => -1), ...names.map((_, entry) => entry)]);
    },
  );

  test('keeps the later one of two names, in whichever order they come', () => {
    const text = textOf(['x', 'same', 'y', 'same']);
    for (const order of [
      [0, 1, 2, 3],
      [3, 2, 1, 0],
    ]) {
      const table = tableOf(text);
      expect(order.map((entry) => table.add(entry)).filter((other) => other !== -1)).toEqual([1]);
      expect(table.find('same')).toBe(3);
    }
  });

  test('tells names apart that share a slot and differ in their hashes', () => {
    const text = textOf(['a', 'b', 'a', 'b']);
    text.hashes.set([0x10000000, 0x20000000, 0x10000000, 0x20000000]);
    const table = tableOf(text);
    expect([0, 1, 2, 3].map((entry) => table.add(entry))).toEqual([-1, -1, 0, 1]);
  });
});

test('a reader stands at the start of a name, long ones too', () => {
  for (const name of ['a', 'a'.repeat(339), 'a'.repeat(340), '€'.repeat(341), '"'.repeat(5000)]) {
    const reader = nameReader(name);
    expect(reader.at).toBe(0);
    expect(reader.readString()).toBe(1);
    const json = new TextEncoder().encode(JSON.stringify(name));
    expect(Buffer.compare(reader.bytes.subarray(0, reader.at), json)).toBe(0);
  }
});
