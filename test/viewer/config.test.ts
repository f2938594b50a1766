/** Configurations of two models, key by key. */
import { expect, it } from 'vitest';
import { configDifference } from '../../viewer/worker/config.js';

it('keys differ by their values, those of objects one by one', () => {
  const first = { a: 1, rope: { theta: 1e4, type: 'x' }, list: [1, { b: 1, c: 2 }], gone: null };
  const second = { list: [1, { c: 2, b: 1 }], rope: { type: 'x', theta: 5e5 }, a: '1', new: {} };
  expect(configDifference(first, second)).toEqual({
    rows: [
      { key: 'a', before: '1', after: '"1"' },
      { key: 'rope.theta', before: '10000', after: '500000' },
      { key: 'gone', before: 'null', after: null },
      { key: 'new', before: null, after: '{}' },
    ],
    ...{ differing: 4, same: 2 },
  });
});

it('there is none of what is no object', () => {
  for (const other of [undefined, null, [], 'text', 1]) {
    expect(configDifference({}, other)).toBe(null);
    expect(configDifference(other, {})).toBe(null);
  }
  const text = { a: ['x\n[', { b: {}, c: [] }, 2] };
  expect(configDifference(text, {})?.rows[0]?.before).toBe('["x\\n[", {"b": {}, "c": []}, 2]');
  expect(configDifference({}, {})).toEqual({ rows: [], differing: 0, same: 0 });
});

it('keys, values and rows are bounded, and all are compared', () => {
  const long = 'x'.repeat(1000);
  const big = (end: string) =>
    Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`${at}-${long}`, long + end]));
  const found = configDifference(big('1'), big('2'));
  expect([found?.differing, found?.rows.length, found?.same]).toEqual([300, 200, 0]);
  for (const { key, before, after } of found?.rows ?? [])
    for (const text of [key, before, after]) expect(text?.length).toBe(201);
});

it('names of prototypes are keys like others', () => {
  const [first, second] = ['{"__proto__": {"a": 1}, "b": [{"__proto__": 1}]}', '{"b": [{}]}'];
  expect(configDifference(JSON.parse(first), JSON.parse(second))?.rows).toEqual([
    { key: '__proto__.a', before: '1', after: null },
    { key: 'b', before: '[{"__proto__": 1}]', after: '[{}]' },
  ]);
});
