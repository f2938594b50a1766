import { describe, expect, test } from 'vitest';
import { runSync } from '../../../src/work/work.js';
import { GivenTensors } from '../../../src/write/input/given-tensors.js';
import {
  type InferredInput,
  type NamedTensors,
  readTensorsAndStreams,
} from '../../../src/write/input/tensor-input.js';
import { thrownBy } from '../../header/header-files.js';
import { parse } from '../../support/api.js';
import { countedBytes, fileBytes } from '../../support/make-file.js';

type Pairs = Iterable<readonly [string, InferredInput]>;

const byte = (value: number) => ({ dtype: 'U8', shape: [1], data: Uint8Array.of(value) }) as const;

function bytesOf(given: GivenTensors): Record<string, number[]> {
  const entries = runSync(given.entries()).map(({ name, byteLength, payload }) => {
    if (payload.kind !== 'memory') throw new Error(payload.kind);
    return [name, [...payload.window(0, byteLength)]];
  });
  return Object.fromEntries(entries);
}

describe('the tensors of a call', () => {
  test('are as they were then, whatever the caller changes', () => {
    const reused = { dtype: 'U8' as const, shape: [2], data: Uint8Array.of(1, 2) };
    const tensors = new Map<string, InferredInput>([['a', reused]]);
    const given = new GivenTensors(tensors);
    reused.shape[0] = 3;
    reused.shape.push(7);
    reused.data = Uint8Array.of(4, 5, 6);
    Object.assign(reused, { dtype: 'I8' });
    tensors.set('b', byte(9));
    expect(runSync(given.entries())).toMatchObject([{ name: 'a', dtype: 'U8', shape: [2] }]);
    expect(bytesOf(given)).toEqual({ a: [1, 2] });
  });

  test('keep their order, shapes of every rank and stored tensors', () => {
    const bytes = countedBytes(4);
    const stored = parse(fileBytes([{ name: 's', dtype: 'U8', shape: [4], bytes }])).getTensor('s');
    const given = new GivenTensors({
      a: { dtype: 'U8', shape: [], data: Uint8Array.of(1) },
      stored,
      b: { dtype: 'U8', shape: [1, 2, 1], data: Uint8Array.of(2, 3) },
      c: { dtype: 'U8', shape: [0, 5], data: new Uint8Array(0) },
    });
    expect([...given.stored].map(({ name }) => name)).toEqual(['stored']);
    const entries = runSync(given.entries());
    expect(entries.map(({ shape }) => shape)).toEqual([[], [4], [1, 2, 1], [0, 5]]);
    expect(bytesOf(given)).toEqual({ a: [1], stored: [...bytes], b: [2, 3], c: [] });
  });

  test('are checked in steps', () => {
    const pairs = Array.from({ length: 513 }, (_, i) => [`${i}`, byte(i % 256)] as const);
    let yields = 0;
    const work = new GivenTensors(pairs).entries();
    for (let next = work.next(); next.done !== true; next = work.next()) yields++;
    expect(yields).toBe(3);
  });

  const typed = Object.assign(new Uint8Array(1), { dtype: 'U8', shape: [1], data: byte(1).data });
  const faults: [string, unknown][] = [
    ['undefined', undefined],
    ['a number', 3],
    ['bare data', typed],
    ['a list', Object.assign([1], byte(1))],
    ['no dtype', { shape: [1], data: new Uint8Array(1) }],
    ['another dtype', { ...byte(1), dtype: 'U7' }],
    ['no shape', { dtype: 'U8', dims: [1], data: new Uint8Array(1) }],
    ['holes', { ...byte(1), shape: new Array(4e9) }],
    ['a text as dimension', { ...byte(1), shape: [1, '1'] }],
    ['a negative dimension', { ...byte(1), shape: [1, -1] }],
    ['another length', { ...byte(1), shape: [2] }],
    ['no data', { dtype: 'U8', shape: [1] }],
    ['a pair that is none', 'pair'],
  ];

  test.each(faults)('with a fault give the error of a synchronous call: %s', (name, tensor) => {
    const fault = name === 'a pair that is none' ? 'pair' : ['x', tensor];
    const pairs = [['a', byte(1)], fault, ['y', 5]] as unknown as Pairs;
    const expected = thrownBy(() => readTensorsAndStreams(pairs));
    const given = new GivenTensors(pairs);
    expect(thrownBy(() => runSync(given.entries()))).toEqual(expected);
    expect(expected).toBeInstanceOf(Error);
  });

  test('report the first fault, even before one of the iterable', () => {
    function* failing(): Generator<readonly [string, InferredInput]> {
      yield ['a', { ...byte(1), shape: [2] }];
      throw new Error('later');
    }
    const given = new GivenTensors(failing());
    expect(() => runSync(given.entries())).toThrow('tensor "a": expected 2 bytes');
    const later = new GivenTensors([['a', byte(1)], ['b']] as unknown as NamedTensors);
    expect(() => runSync(later.entries())).toThrow('an item of tensors');
  });
});
