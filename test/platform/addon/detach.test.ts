import { expect, test } from 'vitest';
import { measureInChild } from '../../support/run-child.js';

const CHILD = 'platform/addon/children/detach.mjs';

// `ArrayBuffer.prototype.transfer` came with Node 22.
const canTransfer = 'transfer' in ArrayBuffer.prototype;

test('detaching empties the views and closes the file at once', async () => {
  expect(await measureInChild(CHILD, ['views'])).toEqual({
    before: new Float32Array(Uint8Array.of(7, 7, 7, 7).buffer)[0],
    lengths: [0, 0, 0],
    element: 'undefined',
    files: 0,
    descriptors: 0,
  });
});

test.runIf(canTransfer)('a transferred buffer reads zeros and can be written', async () => {
  const expected = { before: 7, after: 0, written: 3, files: 0 };
  expect(await measureInChild(CHILD, ['transferred'])).toEqual(expected);
});

test('zlib, crypto and fs succeed when their buffers are detached while they work', async () => {
  const ended = Array(4).fill('fulfilled');
  expect(await measureInChild(CHILD, ['in-flight'])).toEqual(ended);
});

test('detaching a mapping without buffers frees its addresses at once', async () => {
  const expected = { mapped: 1, grown: true, files: 0, freed: true };
  expect(await measureInChild(CHILD, ['never-used'])).toEqual(expected);
});

// 64 GiB, then 4 095 times 10 MiB (40 GiB): the 4 097th mapping pushes the first one out.
test('the quarantine keeps 4 096 ranges, first in, first out', async () => {
  expect(await measureInChild(CHILD, ['eviction-by-count'])).toEqual([104, 40, 40]);
});

test('the quarantine keeps 1 TiB of addresses', async () => {
  expect(await measureInChild(CHILD, ['eviction-by-size'])).toEqual([300, 600, 900, 900, 900, 900]);
});

test.runIf(canTransfer)(
  'a transferred buffer keeps its addresses longer than the quarantine does',
  async () => {
    const expected = { whileHeld: 64, read: 0, after: 0 };
    expect(await measureInChild(CHILD, ['evicted-while-held'])).toEqual(expected);
  },
);
