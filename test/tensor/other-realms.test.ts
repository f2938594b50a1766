import { expect, test } from 'vitest';
import type { RowIndices } from '../../src/tensor/rows.js';
import type { ViewConstructor } from '../../src/tensor/view-types.js';
import { parse, serialize } from '../support/api.js';
import { fileBytes } from '../support/make-file.js';
import { foreign, foreignAbort } from '../support/other-realm.js';

const data = Float32Array.of(1, 2, 3);
const tensor = parse(serialize({ t: { dtype: 'F32', shape: [3], data } })).getTensor('t');

test('a view by a constructor of another realm', () => {
  const type = foreign<ViewConstructor<Float32Array>>('Float32Array');
  const view = tensor.view(type);
  expect(view).toBeInstanceOf(type);
  expect(view.buffer).toBe(tensor.buffer);
  // Misaligned: a copy.
  const bytes = new Uint8Array(data.buffer);
  const odd = parse(fileBytes([{ name: 't', dtype: 'F32', shape: [3], bytes }]));
  expect(odd.getTensor('t').byteOffset % 4).not.toBe(0);
  expect(Array.from(odd.getTensor('t').view(type))).toEqual([1, 2, 3]);
});

test.each(['new Float32Array(3)', 'new Float32Array(new SharedArrayBuffer(12))'])(
  'values into %s of another realm',
  async (source) => {
    const into = foreign<Float32Array>(source);
    expect(tensor.toFloat32({ into })).toBe(into);
    expect(Array.from(into)).toEqual([1, 2, 3]);
    into.fill(0);
    expect(await tensor.toFloat32Async({ into })).toBe(into);
    expect(Array.from(into)).toEqual([1, 2, 3]);
  },
);

test('rows by indices of another realm, into its arrays', async () => {
  for (const indices of ['[2, 0n]', 'Int32Array.of(2, 0)', 'BigInt64Array.of(-1n, 0n)']) {
    expect(tensor.take(foreign<RowIndices>(indices)).data).toEqual(Float32Array.of(3, 1));
  }
  const into = foreign<Float32Array>('new Float32Array(2)');
  expect(tensor.takeFloat32([1, 2], { into })).toBe(into);
  expect(Array.from(into)).toEqual([2, 3]);
  const { buffer } = await tensor.takeAsync([2, 1], { into });
  expect(buffer).toBe(into.buffer);
  expect(Array.from(into)).toEqual([3, 2]);
  expect(() => tensor.take([0], { into: foreign('new Float64Array(1)') })).toThrow('Float64Array');
  expect(() => tensor.take(foreign('Float32Array.of(1)'))).toThrow(TypeError);
});

test('a signal of another realm', async () => {
  const { signal, abort } = foreignAbort();
  expect(await tensor.toFloat32Async({ signal })).toEqual(Float32Array.of(1, 2, 3));
  const reason = new Error('enough');
  abort(reason);
  await expect(tensor.toFloat32Async({ signal })).rejects.toBe(reason);
});

test('a slice by an array of another realm', () => {
  expect(tensor.slice(foreign<[number, number]>('[1, 3]')).data).toEqual(Float32Array.of(2, 3));
});
