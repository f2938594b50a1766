import { expect, test } from 'vitest';
import { parse, serialize, type ViewConstructor } from '../../src/index.js';
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
