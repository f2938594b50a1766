/** Configurations of two models, key by key. */
import { expect, it } from 'vitest';
import { type ConfigValue, configDifference } from '../../viewer/worker/config.js';

/** The rows of a difference, with values as a table shows them. */
function rowsOf(first: unknown, second: unknown) {
  const excerpt = (value: ConfigValue | null) => value?.excerpt ?? null;
  return configDifference(first, second)?.rows.map(({ key, before, after }) => ({
    ...{ key, before: excerpt(before), after: excerpt(after) },
  }));
}

it('keys differ by their values, those of objects one by one', () => {
  const first = { a: 1, rope: { theta: 1e4, type: 'x' }, list: [1, { b: 1, c: 2 }], gone: null };
  const second = { list: [1, { c: 2, b: 1 }], rope: { type: 'x', theta: 5e5 }, a: '1', new: {} };
  expect(rowsOf(first, second)).toEqual([
    { key: 'a', before: '1', after: '"1"' },
    { key: 'rope.theta', before: '10000', after: '500000' },
    { key: 'gone', before: 'null', after: null },
    { key: 'new', before: null, after: '{}' },
  ]);
  expect(configDifference(first, second)).toMatchObject({ differing: 4, same: 2 });
});

it('there is none of what is no object', () => {
  for (const other of [undefined, null, [], 'text', 1]) {
    expect(configDifference({}, other)).toBe(null);
    expect(configDifference(other, {})).toBe(null);
  }
  const text = { a: ['x\n[', { b: {}, c: [] }, 2] };
  expect(rowsOf(text, {})?.[0]?.before).toBe('["x\\n[", {"b": {}, "c": []}, 2]');
  expect(configDifference({}, {})).toEqual({ rows: [], differing: 0, same: 0 });
});

it('an object in place of another value has rows for its keys', () => {
  expect(rowsOf({ rope: null, x: { y: 1 } }, { rope: { factor: 8 }, x: [] })).toEqual([
    { key: 'rope', before: 'null', after: null },
    { key: 'rope.factor', before: null, after: '8' },
    { key: 'x', before: null, after: '[]' },
    { key: 'x.y', before: '1', after: null },
  ]);
});

it('keys with dots and brackets are told apart from keys of objects', () => {
  const first = { 'a.b': 1, a: { b: 2, '': 3 }, '["a"]': 4 };
  const second = { 'a.b': 9, a: { b: 2, '': 8 }, '["a"]': 7 };
  expect(rowsOf(first, second)).toEqual([
    { key: '["a.b"]', before: '1', after: '9' },
    { key: 'a[""]', before: '3', after: '8' },
    { key: '["[\\"a\\"]"]', before: '4', after: '7' },
  ]);
  expect(rowsOf({ a: { 'b.c': 1 } }, { a: { 'b.c': 2 } })?.[0]?.key).toBe('a["b.c"]');
});

it('excerpts begin shortly before the first difference', () => {
  const types = (other: number) =>
    Array.from({ length: 48 }, (_, at) => (at === other ? 'full_attention' : 'sliding_attention'));
  const found = configDifference({ layer_types: types(40) }, { layer_types: types(47) });
  const [row] = found?.rows ?? [];
  const [before, after] = [row?.before?.excerpt ?? '', row?.after?.excerpt ?? ''];
  expect(before).not.toBe(after);
  expect(before.slice(0, 57)).toBe('…iding_attention", "sliding_attention", "full_attention",');
  expect(after.slice(0, 57)).toBe('…iding_attention", "sliding_attention", "sliding_attentio');
  expect(row?.before?.json).toBe(
    `[${types(40)
      .map((one) => `"${one}"`)
      .join(', ')}]`,
  );
});

it('differences far into a value are found and shown', () => {
  const list = (last: number) => ({ a: [...Array.from({ length: 50_000 }, () => 7), last] });
  const [row] = configDifference(list(1), list(2))?.rows ?? [];
  for (const form of ['json', 'excerpt'] as const) {
    expect(row?.before?.[form]).toMatch(/^…[ 7,]{40}1\]$/);
    expect(row?.after?.[form]).toMatch(/^…[ 7,]{40}2\]$/);
  }
});

it('keys, values and rows are bounded, and all are compared', () => {
  const long = 'x'.repeat(20_000);
  const big = (begin: string) =>
    Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`${at}-${long}`, begin + long]));
  const found = configDifference(big('1'), big('2'));
  expect([found?.differing, found?.rows.length, found?.same]).toEqual([300, 200, 0]);
  for (const { key, before, after } of found?.rows ?? []) {
    expect([key.length, before?.excerpt.length, after?.excerpt.length]).toEqual([201, 201, 201]);
    expect([before?.json.length, after?.json.length]).toEqual([10_001, 10_001]);
  }
});

it('values of any depth are compared', () => {
  const nested = (end: string, depth = 100_000) =>
    JSON.parse(`{"a": ${'['.repeat(depth)}${end}${']'.repeat(depth)}, "b": 1}`);
  expect(configDifference(nested('1'), nested('1'))).toMatchObject({ differing: 0, same: 2 });
  expect(configDifference(nested('1'), nested('2'))).toMatchObject({ differing: 1, same: 1 });
  const [row] = configDifference(nested('1'), { b: 1 })?.rows ?? [];
  expect(row?.before?.json).toBe(`${'['.repeat(101)}…${']'.repeat(101)}`);
});

it('all of many keys are counted', () => {
  const many = (value: number) =>
    Object.fromEntries(Array.from({ length: 60_000 }, (_, at) => [`k${at}`, at % 2 ? value : 0]));
  expect(configDifference({ a: many(1) }, { a: many(2) })).toMatchObject({
    ...{ differing: 30_000, same: 30_000 },
  });
});

it('names of prototypes are keys like others', () => {
  const [first, second] = ['{"__proto__": {"a": 1}, "b": [{"__proto__": 1}]}', '{"b": [{}]}'];
  expect(rowsOf(JSON.parse(first), JSON.parse(second))).toEqual([
    { key: '__proto__.a', before: '1', after: null },
    { key: 'b', before: '[{"__proto__": 1}]', after: '[{}]' },
  ]);
});
