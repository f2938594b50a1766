import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { encodeIndex, type IndexValue } from '../../../src/file/shards/checkpoint-index-writer.js';
import { anyText } from '../../support/any-text.js';
import { shardingCases } from './sharding-cases.js';

/** Pairs of an object's text in their order; the names of the cases are no numbers. */
function entriesOf<T>(object: Readonly<Record<string, T>>): Map<string, T> {
  return new Map(Object.entries(object));
}

/** Its text. */
function indexText(...index: Parameters<typeof encodeIndex>): string {
  return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(encodeIndex(...index));
}

const indexes = shardingCases.save.flatMap(({ id, expected_files: files }) =>
  Object.entries(files).flatMap(([name, { text }]) =>
    text === undefined ? [] : { id, name, text },
  ),
);

describe('encodeIndex', () => {
  it('has cases', () => {
    expect(indexes.length).toBeGreaterThan(4);
  });

  it.each(indexes)('$id: writes the bytes of huggingface_hub into $name', ({ text }) => {
    const { metadata, weight_map: weightMap } = JSON.parse(text) as {
      metadata: Record<string, number | string>;
      weight_map: Record<string, string>;
    };
    expect(indexText(entriesOf(metadata), entriesOf(weightMap))).toBe(text);
  });

  it('keeps order and names that objects treat in their own way', () => {
    const names = ['__proto__', '10', 'constructor', '2', '', 'a'];
    const weightMap = new Map(names.map((name, i) => [name, `f${i}`]));
    expect(indexText(new Map<string, IndexValue>([['total_size', 1]]), weightMap)).toBe(
      `{
  "metadata": {
    "total_size": 1
  },
  "weight_map": {
    "__proto__": "f0",
    "10": "f1",
    "constructor": "f2",
    "2": "f3",
    "": "f4",
    "a": "f5"
  }
}`,
    );
  });

  it('escapes as Python does', () => {
    const name = '\0\b\t\n\v\f\r\x1f "\\/\x7f\x80é層\u2028\ufeff\uffff💡';
    expect(indexText(new Map(), new Map([[name, 'f']]))).toContain(
      '"\\u0000\\b\\t\\n\\u000b\\f\\r\\u001f \\"\\\\/\\u007f\\u0080\\u00e9\\u5c64\\u2028\\ufeff\\uffff' +
        '\\ud83d\\udca1": "f"',
    );
  });

  it('writes every kind of metadata, and empty ones as Python does', () => {
    const metadata = new Map<string, IndexValue>([
      ['total_size', 0.5],
      ['yes', true],
      ['none', null],
      ['list', [1, ['x'], []]],
      ['map', new Map<string, IndexValue>([['k', new Map()]])],
    ]);
    expect(indexText(metadata, new Map())).toBe(
      `{
  "metadata": {
    "total_size": 0.5,
    "yes": true,
    "none": null,
    "list": [
      1,
      [
        "x"
      ],
      []
    ],
    "map": {
      "k": {}
    }
  },
  "weight_map": {}
}`,
    );
  });

  it('refuses numbers that JSON does not have', () => {
    for (const number of [Number.NaN, Number.POSITIVE_INFINITY]) {
      expect(() => indexText(new Map([['a', number]]), new Map())).toThrow(
        expect.objectContaining({ code: 'ERR_OUT_OF_RANGE' }),
      );
    }
  });

  it('is what JSON.stringify writes, but in ASCII', () => {
    const names = fc.uniqueArray(anyText(), { maxLength: 8 });
    fc.assert(
      fc.property(names, (list) => {
        const weightMap = new Map(list.map((name) => [`n${name}`, name]));
        const text = indexText(new Map<string, IndexValue>([['total_size', 7]]), weightMap);
        expect(text).toMatch(/^[\n\x20-\x7e]*$/);
        const object = { metadata: { total_size: 7 }, weight_map: Object.fromEntries(weightMap) };
        const plain = JSON.stringify(object, null, 2);
        const decoded = text.replace(/\\u(?!00[01])([0-9a-f]{4})/g, (_, hex: string) =>
          String.fromCharCode(Number.parseInt(hex, 16)),
        );
        if (!list.some((name) => name.includes('\\'))) expect(decoded).toBe(plain);
        expect(JSON.parse(text)).toEqual(object);
      }),
    );
  });
});
