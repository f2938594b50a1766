import { createContext, runInContext } from 'node:vm';
import { describe, expect, test } from 'vitest';
import { pairsOf } from '../../src/errors/named-values.js';

const listed = (values: unknown): unknown => [...pairsOf(values as never, 'tensors')];

describe('pairsOf', () => {
  const pairs = [
    ['b', 1],
    ['a', 2],
  ] as const;

  test.each([
    ['a Map', new Map(pairs)],
    ['an array of pairs', pairs],
    ['a generator', new Map(pairs).entries()],
    ['a plain object', { b: 1, a: 2 }],
    ['an object without a prototype', Object.assign(Object.create(null), { b: 1, a: 2 })],
    ['an object of another realm', runInContext('({ b: 1, a: 2 })', createContext())],
  ])('takes %s', (_, values) => {
    expect(listed(values)).toEqual(pairs);
  });

  test('takes own enumerable keys of an object only, `__proto__` among them', () => {
    const object = JSON.parse('{"__proto__": 1, "constructor": 2}');
    Object.defineProperty(object, 'hidden', { value: 3 });
    expect(listed(object)).toEqual([
      ['__proto__', 1],
      ['constructor', 2],
    ]);
  });

  test('keeps a name that comes twice', () => {
    expect(listed([...pairs, ...pairs])).toHaveLength(4);
  });

  test.each([
    [undefined],
    [null],
    ['text'],
    [3],
    [new ArrayBuffer(3)],
    [Promise.resolve(new Map())],
    [() => new Map()],
  ])('refuse %o', (values) => {
    expect(() => listed(values)).toThrow(
      expect.objectContaining({
        name: 'TypeError',
        code: 'ERR_INVALID_ARG_TYPE',
        message: expect.stringMatching(
          /^tensors must be an open checkpoint, a Map, an iterable of/,
        ),
      }),
    );
  });

  test.each([[['ab']], [[['a']]], [[['a', 1, 2]]], [new Set([1])], [new Uint8Array(1)]])(
    '%o has items that are no pairs',
    (values) => {
      expect(() => listed(values)).toThrow(/^an item of tensors must be a \[name, value\] pair/);
    },
  );

  test('names are strings', () => {
    expect(() => listed(new Map([[1, 2]]))).toThrow(
      /^a name of tensors must be a string, but is 1/,
    );
  });

  test('a Map with values that were set as properties is refused', () => {
    const values = Object.assign(new Map(pairs), { c: 3 });
    expect(() => listed(values)).toThrow(
      expect.objectContaining({
        code: 'ERR_INVALID_ARG_VALUE',
        message: 'tensors is a Map with a property "c"; write set("c", value) instead',
      }),
    );
  });
});
